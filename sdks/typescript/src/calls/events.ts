/** Calls on a tenant's events, for applications. */

import type { JsonObject } from "../types/jobs.ts";
import { encode } from "../types/jsonb.ts";
import { type Call, decodeValue } from "./call.ts";

/** Return the event's ID. */
export function emitEvent(
  name: string,
  data: JsonObject,
  options: {
    readonly key?: string | undefined;
    readonly correlation_id?: string | undefined;
  },
  tenantId: string | null,
): Call<string> {
  return {
    name: "emit_event",
    text: "select jobforge.emit_event($1::text, $2::text::jsonb, $3::text::jsonb, $4::uuid)::text as answer",
    values: [name, encode(data, "data"), encode(options, "options"), tenantId],
    decode: decodeValue,
  };
}
