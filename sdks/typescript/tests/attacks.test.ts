/** Jobs attack the socket to their worker: each attack ends only its own attempt. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { runWorkerDuringTests, urlOf } from "./setup.ts";

process.env.JOBFORGE_DATABASE_URL = urlOf();
process.env.JOBFORGE_SECRET_ISOLATED = "open sesame";
const { attack, jf, look, QUEUE } = await import("./isolated_app.ts");
const module = new URL("./isolated_app.ts", import.meta.url).href;

await jf.register();
runWorkerDuringTests(jf, { module, queues: { [QUEUE]: 4 }, warm: 1 });

const PROTOCOL_ERROR = "Wrote to the socket that is reserved for its worker";
const ATTACKS = ["null", "text", "note", "long note", "verdict", "step", "endless"];
for (const how of [...ATTACKS, "questions"]) {
  test(`a job that writes to its worker's socket itself crashes alone: ${how}`, async () => {
    const message =
      how === "questions"
        ? "Sent requests to its worker without reading the responses"
        : PROTOCOL_ERROR;
    const other = await look.enqueue({});
    const handle = await attack.enqueue({ how });
    const { error, state } = await handle.wait({ timeout: 30 });
    assert.deepEqual([state, error?.type, error?.message], ["dead", "Crashed", message]);
    assert.equal((await other.result({ timeout: 30 })).secret, "open sesame");
    const { attempts } = await jf.client.getHistory(handle.id);
    assert.equal(attempts[0]?.outcome, "crashed");
  });
}
