/** Attacks on redaction: tenants whose jobs print chosen text, and texts that would take long. */

import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { z } from "zod";
import { JobForge, registerSecret } from "../src/index.ts";
import { unconfigure } from "../src/observability/logs.ts";
import { MIN_BACKGROUND_LENGTH, redactInBackground } from "../src/redact/background.ts";
import { hideText, jobScope, LOG_SCOPE, MARKER, registerJobSecret } from "../src/redact/index.ts";
import { RedactionScope } from "../src/redact/scope.ts";
import type { ClaimedJob } from "../src/types/jobs.ts";
import { configureLogs } from "../src/worker/index.ts";
import { unique, until, urlOf, withClient, withWorker } from "./setup.ts";

const PASSWORD = `db-${randomBytes(12).toString("hex")}`;
const NOTE = z.object({ note: z.string().default("") });

after(unconfigure);

/** An app whose database URL has a password, which this server does not ask for. */
function newApp(): JobForge {
  const url = urlOf().replace("postgres@", `postgres:${PASSWORD}@`);
  assert.ok(url.includes(PASSWORD));
  return new JobForge(url, { tenant: randomUUID() });
}

/** Settings of inline jobs on a queue that only this test's worker serves. */
function inlineQueue() {
  const queue = unique("q");
  const settings = { queue, isolation: "inline", retry: 1, params: NOTE } as const;
  return { queues: { [queue]: 20 }, settings };
}

/** Return everything that a tenant can read about a job, as JSON. */
async function readOutput(jf: JobForge, id: string, tenantId: string): Promise<string> {
  const history = await jf.tenant(tenantId, () => jf.client.getHistory(id));
  const notes = await withClient(async (client) => {
    const text = "select kind, data from jobforge.list_notes($1, p_tenant_id => $2)";
    return (await client.query(text, [id, tenantId])).rows;
  });
  return JSON.stringify([history.job.result, history.attempts, notes]);
}

for (const isRight of [true, false]) {
  test(`a job that repeats its payload does not confirm a ${isRight ? "right" : "wrong"} guess`, async () => {
    const jf = newApp();
    const { queues, settings } = inlineQueue();
    const secret = `smtp-${randomBytes(8).toString("hex")}`;
    process.env.JOBFORGE_SECRET_GUESSED = secret;
    const send = jf.job(unique("send"), settings, async (ctx, { note }) => {
      await ctx.secret("guessed");
      ctx.emit("sending", note);
      ctx.log.info(`sending ${note}`);
      throw new Error(`cannot send ${note}`);
    });
    const guess = isRight ? secret : `smtp-${randomBytes(8).toString("hex")}`;
    await withWorker(jf, { queues }, async () => {
      await jf.register();
      const handle = await send.enqueue({ note: guess });
      await handle.wait({ timeout: 20 });
      const said = await readOutput(jf, handle.id, handle.tenantId);
      assert.ok(said.split(guess).length > 3, said);
      assert.ok(!said.includes(MARKER), said);
    });
  });
}

test("a secret is hidden in the output of the job that was given it, and in that of no other", async () => {
  const jf = newApp();
  const { queues, settings } = inlineQueue();
  const secret = `smtp-${randomBytes(8).toString("hex")}`;
  process.env.JOBFORGE_SECRET_GIVEN = secret;
  const send = jf.job(unique("send"), settings, async (ctx) => {
    const given = await ctx.secret("given");
    ctx.emit("logging in", { given });
    throw new Error(`login ${given} failed`);
  });
  const fetch = jf.job(unique("fetch"), settings, (ctx) => ctx.emit("fetched", { body: secret }));
  await withWorker(jf, { queues }, async () => {
    await jf.register();
    const sent = await send.enqueue({});
    await sent.wait({ timeout: 20 });
    const fetched = await fetch.enqueue({});
    await fetched.wait({ timeout: 20 });
    const said = await readOutput(jf, sent.id, sent.tenantId);
    assert.ok(!said.includes(secret), said);
    assert.ok(said.split(MARKER).length > 2, said);
    const other = await readOutput(jf, fetched.id, fetched.tenantId);
    assert.ok(other.includes(secret), other);
  });
});

test("what jobs of a tenant register does not change the output of others", async () => {
  const jf = newApp();
  const { queues, settings } = inlineQueue();
  const words = ['"amount"', ': 1250, "', "paid-out", "true}true"];
  const body = { amount: 1250, status: "paid-out", ready: true };
  const register = jf.job(unique("register"), settings, () => {
    for (const word of words) registerSecret(word);
  });
  const tell = jf.job(unique("tell"), settings, (ctx) => {
    ctx.emit("told", body);
    return body as never;
  });
  const [a, b] = [randomUUID(), randomUUID()];
  await withWorker(jf, { queues }, async () => {
    await jf.register();
    await (await register.using({ tenant: a }).enqueue({})).wait({ timeout: 20 });
    const own = await tell.using({ tenant: a }).enqueue({});
    const other = await tell.using({ tenant: b }).enqueue({});
    assert.deepEqual(await own.result({ timeout: 20 }), body);
    assert.deepEqual(await other.result({ timeout: 20 }), body);
    const readNotes = async (id: string, tenant: string) =>
      JSON.parse(await readOutput(jf, id, tenant))[2];
    const [[mine], [theirs]] = [await readNotes(own.id, a), await readNotes(other.id, b)];
    assert.deepEqual(mine.data.data, { amount: 1250, status: MARKER, ready: true });
    assert.deepEqual(theirs.data.data, body);
  });
});

test("secrets of jobs do not push out those of the installation, which tenants cannot test", async () => {
  const jf = newApp();
  const { queues, settings } = inlineQueue();
  const lines: string[] = [];
  configureLogs({ level: "debug", write: (line) => void lines.push(line) });
  const flood = jf.job(unique("flood"), settings, () => {
    for (let number = 0; number < 2_000; number += 1) registerSecret(`secret-${number}-of-many`);
    throw new Error(`login with ${PASSWORD} failed`);
  });
  await withWorker(jf, { queues }, async () => {
    await jf.register();
    for (let number = 0; number < 2_000; number += 1) registerJobSecret(`handed-${number}-x`);
    const handle = await flood.enqueue({});
    await handle.wait({ timeout: 20 });
    const line = () => lines.find((each) => each.includes("job.dead"));
    await until(() => line() !== undefined);
    assert.ok(line()?.includes(`login with ${MARKER} failed`), line());
    assert.ok((await readOutput(jf, handle.id, handle.tenantId)).includes(PASSWORD));
  });
  unconfigure();
});

/** Records whether this thread redacted a text. */
class ThreadScope extends RedactionScope {
  wasAsked = false;

  override hide(text: string): string {
    this.wasAsked = true;
    return super.hide(text);
  }
}

test("long texts are redacted in another thread, short ones at once", async () => {
  const scope = new ThreadScope(() => []);
  scope.add("correct horse battery");
  const long = `${"x".repeat(MIN_BACKGROUND_LENGTH)}\nsay correct horse battery`;
  const items = [{ value: { text: long } }, { tail: long, isCut: true }];
  const [value, tail] = await redactInBackground(items.map((item) => [item, scope]));
  assert.deepEqual(value, { text: long.replace("correct horse battery", MARKER) });
  assert.ok(String(tail).endsWith(`say ${MARKER}`));
  assert.equal(scope.wasAsked, false);
  const [short] = await redactInBackground([[{ value: "say correct horse battery" }, scope]]);
  assert.equal(short, `say ${MARKER}`);
  assert.equal(scope.wasAsked, true);
});

test("a value that cannot be copied to the thread is redacted all the same", async () => {
  let deep: unknown[] = ["password=hunter2hunter2".repeat(MIN_BACKGROUND_LENGTH)];
  for (let level = 0; level < 50_000; level += 1) deep = [deep];
  const [shownDeep] = await redactInBackground([[{ value: deep as never }, LOG_SCOPE]]);
  assert.ok(!JSON.stringify(shownDeep).includes("hunter2"));
});

test("secrets and texts made to be slow do not stop a worker", async () => {
  const jf = newApp();
  const { queues, settings } = inlineQueue();
  const values = ["a", "b"].map((end) => `${"a".repeat(300)}b${"a".repeat(60_000)}${end}`);
  const slow = jf.job(unique("slow"), settings, (ctx) => {
    for (const value of values) registerSecret(value);
    ctx.emit("told", `${"a".repeat(300_000)}\n${"a".repeat(300_000)}`);
  });
  await withWorker(jf, { queues }, async () => {
    await jf.register();
    const handle = await slow.enqueue({});
    const { state, attempt } = await handle.wait({ timeout: 60 });
    assert.deepEqual([state, attempt], ["succeeded", 1]);
  });
  const scope = jobScope({ tenant_id: randomUUID(), payload_json: "{}" } as ClaimedJob);
  const hostile = [")", ",", "password: )", "token: ,", "a\\", '"', "://a:", "eyJaaaaaaaaa."];
  for (const piece of hostile) {
    for (const start of ["password=", "token: ", ""]) {
      const text = `${start}${piece.repeat(Math.floor(400_000 / piece.length))}x`;
      assert.equal(typeof hideText(text, scope), "string");
    }
  }
});
