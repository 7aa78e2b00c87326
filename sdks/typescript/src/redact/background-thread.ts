/** The thread that redacts long texts. background.ts starts it. */

import { parentPort } from "node:worker_threads";
import { redactItem, type ThreadRequest, type ThreadResponse } from "./background.ts";
import { RedactionScope } from "./scope.ts";

parentPort?.on("message", ({ number, scopes, items }: ThreadRequest) => {
  const created = scopes.map((scope) => RedactionScope.of(scope));
  const none = RedactionScope.of({ values: [], payload: "" });
  const shown = items.map(([item, position]) => redactItem(item, created[position] ?? none));
  parentPort?.postMessage({ number, shown } satisfies ThreadResponse);
});
