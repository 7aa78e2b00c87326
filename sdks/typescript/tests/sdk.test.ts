/** The app's side: definitions, enqueuing, transactions, waiting. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { drizzle } from "drizzle-orm/node-postgres";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { z } from "zod";
import { errors, JobForge, type Queryable } from "../src/index.ts";
import { newApp, unique, urlOf, withClient } from "./ground.ts";

const jf = newApp();
const greet = jf.job(
  unique("greet"),
  { params: z.object({ name: z.string(), times: z.number().int().default(1) }) },
  async (_ctx, { name, times }) => name.repeat(times),
);
await jf.register();
after(() => jf.close());

test("a job is stored with what was given, without defaults", async () => {
  const handle = await greet.enqueue({ name: "Ada" });
  const job = await handle.job();
  assert.equal(handle.status, "created");
  assert.equal(job.state, "queued");
  assert.deepEqual(job.payload, { name: "Ada" });
});

test("arguments that do not fit are refused before anything is sent", async () => {
  const wrong = { name: 7 } as unknown as { name: string };
  await assert.rejects(greet.enqueue(wrong), (error: errors.InvalidPayload) => {
    assert.ok(error instanceof errors.InvalidPayload);
    assert.equal(error.code, "invalid_payload");
    assert.equal(error.field, "name");
    return true;
  });
});

test("the same key answers the same job, or raises if it is to", async () => {
  const keyed = greet.using({ key: unique("key") });
  const first = await keyed.enqueue({ name: "Ada" });
  const second = await keyed.enqueue({ name: "Ada" });
  assert.equal(second.status, "existing");
  assert.equal(second.id, first.id);
  await assert.rejects(keyed.using({ onConflict: "raise" }).enqueue({ name: "Ada" }), {
    code: "duplicate_key",
  });
});

test("many jobs come in the order of their arguments", async () => {
  const many = Array.from({ length: 50 }, (_, number) => ({ name: `n${number}` }));
  const handles = await greet.enqueueMany(many);
  const payloads = await Promise.all(
    [handles[0], handles[49]].map(async (handle) => (await handle?.job())?.payload),
  );
  assert.deepEqual(payloads, [{ name: "n0" }, { name: "n49" }]);
  const each = await greet.enqueueEach([{ args: { name: "x" }, using: { delay: "5m" } }]);
  assert.equal((await each[0]?.job())?.state, "scheduled");
});

test("a login that may not name a tenant sets it for its transaction", async () => {
  const tenant = crypto.randomUUID();
  const own = new JobForge(urlOf("client"), { tenant });
  const definition = own.job(greet.settings.key, {}, () => undefined);
  const handle = await definition.enqueue({});
  assert.equal((await handle.job()).tenant_id, tenant);
  await own.close();
});

test("without a tenant the error names the ways to give one", async () => {
  const own = new JobForge(urlOf());
  const definition = own.job(greet.settings.key, {}, () => undefined);
  await assert.rejects(definition.enqueue({}), errors.TenantRequired);
  const handle = await own.tenant(crypto.randomUUID(), () => definition.enqueue({}));
  assert.equal(handle.status, "created");
  await own.close();
});

test("a job joins the transaction of its caller", async () => {
  const pool = new pg.Pool({ connectionString: urlOf("service") });
  const kysely = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) });
  const prisma = (client: pg.Client) => ({
    // As Prisma has it: values one by one, rows as they are.
    $queryRawUnsafe: async (text: string, ...values: unknown[]) =>
      (await client.query(text, values)).rows,
  });
  const gone = new Error("rolled back");
  const ways: Record<string, (use: (conn: Queryable) => Promise<void>) => Promise<void>> = {
    pg: (use) =>
      withClient(async (client) => {
        await client.query("begin");
        await use(client).finally(() => client.query("rollback"));
      }, "service"),
    kysely: (use) => kysely.transaction().execute((tx) => use(tx)),
    drizzle: (use) => drizzle({ client: pool }).transaction((tx) => use(tx)),
    prisma: (use) =>
      withClient(async (client) => {
        await client.query("begin");
        await use(prisma(client)).finally(() => client.query("rollback"));
      }, "service"),
  };
  for (const [name, way] of Object.entries(ways)) {
    let id = "";
    const rolledBack = way(async (conn) => {
      id = (await greet.using({ conn }).enqueue({ name })).id;
      throw gone;
    });
    await assert.rejects(rolledBack, gone);
    await assert.rejects(jf.client.getJob(id), errors.NotFound, name);
  }
  const kept = await kysely
    .transaction()
    .execute((conn) => greet.using({ conn }).enqueue({ name: "k" }));
  assert.equal((await kept.job()).state, "queued");
  const committed = await drizzle({ client: pool }).transaction((conn) =>
    greet.using({ conn }).enqueue({ name: "d" }),
  );
  assert.equal((await committed.job()).state, "queued");
  await kysely.destroy();
});

test("an error of the engine has its class also through a query builder", async () => {
  const unknown = jf.job(unique("unknown"), {}, () => undefined);
  const kysely = new Kysely<Record<string, never>>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: urlOf("service") }) }),
  });
  await assert.rejects(unknown.using({ conn: kysely }).enqueue({}), errors.UnknownDefinition);
  await kysely.destroy();
});

test("jobs are listed, canceled, retried and explained", async () => {
  const own = newApp();
  const definition = own.job(greet.settings.key, {}, () => undefined);
  const { id } = await definition.using({ tags: ["monthly"] }).enqueue({});
  assert.deepEqual(
    (await own.client.listJobs({ tag: "monthly" })).map((job) => job.id),
    [id],
  );
  assert.equal((await own.client.explainJob(id))[0]?.code !== undefined, true);
  assert.equal(await own.client.cancelJob(id, { reason: "enough" }), "canceled");
  const again = await own.client.retryJob(id);
  assert.equal((await own.client.getJob(again)).retry_of, id);
  await own.close();
});

test("a job that is not over in time is a WaitTimeout, one that was canceled a JobFailed", async () => {
  const handle = await greet.enqueue({ name: "Ada" });
  await assert.rejects(handle.wait({ timeout: 0 }), errors.WaitTimeout);
  await jf.client.cancelJob(handle.id, { reason: "enough" });
  await assert.rejects(handle.result(), (error: errors.JobFailed) => {
    assert.equal(error.detail.state, "canceled");
    return error instanceof errors.JobFailed;
  });
});

test("what jsonb cannot keep is refused", async () => {
  const open = jf.job(
    unique("open"),
    { params: z.object({ value: z.unknown() }) },
    () => undefined,
  );
  for (const value of [Number.NaN, "\0", "\ud800", 10n, () => 1]) {
    await assert.rejects(open.enqueue({ value }), errors.InvalidPayload, String(value));
  }
});

test("the types of arguments and results are those of the schemas", () => {
  const typed = jf.job(
    unique("typed"),
    { params: z.object({ to: z.string() }), result: z.object({ sent: z.number() }) },
    async () => ({ sent: 1 }),
  );
  // @ts-expect-error: `to` is a text
  const wrong = () => typed.enqueue({ to: 1 });
  // @ts-expect-error: the result has `sent`
  const missing = async () => (await (await typed.enqueue({ to: "x" })).result()).gone;
  assert.equal(typeof wrong, typeof missing);
});
