/** The HTTP client, on a real server. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ServerClient } from "../src/http/index.ts";
import { errors } from "../src/index.ts";

const given = process.env.JOBFORGE_TEST_SERVER;
const { url, key, definition } = JSON.parse(given ?? "{}") as Record<string, string>;

test("jobs are made, read, listed, canceled and retried over HTTP", { skip: !given }, async () => {
  const server = new ServerClient({ url: url ?? "", key: key ?? "" });
  const job = { definition: definition ?? "", payload: { to: "Ada" }, tags: ["over-http"] };
  const made = await server.enqueue(job, "request-1");
  assert.equal((await server.enqueue(job, "request-1")).id, made.id);
  assert.equal((await server.enqueueMany([job, job])).length, 2);
  assert.equal((await server.getJob(made.id)).state, "queued");
  assert.equal((await server.listJobs({ tag: "over-http", limit: 2 })).items.length, 2);
  assert.equal(await server.cancelJob(made.id, "enough"), "canceled");
  assert.notEqual(await server.retryJob(made.id), made.id);
  await assert.rejects(server.getJob(crypto.randomUUID()), errors.NotFound);
  await assert.rejects(server.enqueue({ ...job, payload: { to: 7 } }), errors.InvalidPayload);
  const stranger = new ServerClient({ url: url ?? "", key: "jf_abcdefgh_wrong" });
  await assert.rejects(stranger.listJobs(), errors.Unauthenticated);
});

test("templates are rendered as the contract says", { skip: !given }, async () => {
  const server = new ServerClient({ url: url ?? "", key: key ?? "" });
  const path = new URL("../../../contract/cases/templates.json", import.meta.url);
  const { event, rendered, refused } = JSON.parse(readFileSync(path, "utf8")) as {
    event: Record<string, unknown>;
    rendered: [unknown, unknown][];
    refused: [unknown, string][];
  };
  for (const [value, expected] of rendered) {
    const preview = await server.previewTrigger({ payload: { value }, event });
    assert.deepEqual(preview.payload, { value: expected });
  }
  for (const [value, field] of refused) {
    const preview = server.previewTrigger({ payload: { value }, event });
    await assert.rejects(preview, { code: "invalid", field });
  }
});

test("a server that is not there is Unavailable", async () => {
  const server = new ServerClient({ url: "http://127.0.0.1:9", key: "x" });
  await assert.rejects(server.listJobs(), errors.Unavailable);
});
