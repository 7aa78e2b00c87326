/** The thread that redacts long texts; background.ts starts it. */

import { parentPort } from "node:worker_threads";
import { type Request, type Response, shownItem } from "./background.ts";
import { Scope } from "./scope.ts";

parentPort?.on("message", ({ number, scopes, items }: Request) => {
  const made = scopes.map((scope) => Scope.of(scope));
  const none = Scope.of({ values: [], payload: "" });
  const shown = items.map(([item, place]) => shownItem(item, made[place] ?? none));
  parentPort?.postMessage({ number, shown } satisfies Response);
});
