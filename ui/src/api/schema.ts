/** What the HTTP API takes and answers: written from its OpenAPI document, by `make types`. */
export type * from "../../../sdks/typescript/src/http/types.ts";
