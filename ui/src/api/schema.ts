/** The types of the HTTP API, generated from its OpenAPI document by `make types`. */
export type * from "../../../sdks/typescript/src/http/types.ts";
