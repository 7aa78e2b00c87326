/** Calls on a tenant's events, for applications. */

import type { JsonObject } from "../types/jobs.ts";
import { type Call, JsonArgument } from "./call.ts";
import { value } from "./results.ts";

/** Return the event's ID. */
export function emitEvent(
  name: string,
  data: JsonObject,
  options: {
    readonly key?: string | undefined;
    readonly correlation_id?: string | undefined;
  },
): Call<string> {
  return {
    function: "emit_event",
    arguments: {
      name,
      data: JsonArgument.of(data, "data"),
      options: JsonArgument.of(options, "options"),
    },
    result: value(),
  };
}
