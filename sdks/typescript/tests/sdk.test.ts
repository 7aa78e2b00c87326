/** The application's side: definitions, enqueuing, transactions, waiting. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOverPostgresJs } from "drizzle-orm/postgres-js";
import { CamelCasePlugin, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { z } from "zod";
import { type Context, errors, JobForge, type Queryable } from "../src/index.ts";
import { addressOf, newApp, unique, urlOf, withClient } from "./setup.ts";

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

test("a payload that is too large for a row is refused with what to do", async () => {
  const name = "x".repeat(300_000);
  await assert.rejects(greet.enqueue({ name }), (error: errors.PayloadTooLarge) => {
    assert.ok(error instanceof errors.PayloadTooLarge);
    assert.deepEqual([error.code, error.detail.limit], ["payload_too_large", 262_144]);
    assert.match(error.hint ?? "", /enqueue a reference/);
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

/** Transactions of each supported library, with the connection on which a job is enqueued. */
const pool = new pg.Pool({ connectionString: urlOf("service") });
const kysely = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) });
const sql = postgres({ ...addressOf("service"), max: 1 });
const pascal = postgres({ ...addressOf("service"), max: 1, transform: postgres.pascal });
const transactions: Record<string, (use: (conn: Queryable) => Promise<void>) => Promise<unknown>> =
  {
    pg: (use) =>
      withClient(async (client) => {
        await client.query("begin");
        await use(client).catch(async (error) => {
          await client.query("rollback");
          throw error;
        });
        await client.query("commit");
      }, "service"),
    kysely: (use) => kysely.transaction().execute((tx) => use(tx)),
    drizzle: (use) => drizzle({ client: pool }).transaction((tx) => use(tx)),
    "kysely that spells names in camel case": (use) =>
      kysely
        .withPlugin(new CamelCasePlugin())
        .transaction()
        .execute((tx) => use(tx)),
    "drizzle, in a savepoint": (use) =>
      drizzle({ client: pool }).transaction((tx) => tx.transaction((inner) => use(inner))),
    "postgres.js": (use) => sql.begin((tx) => use(tx)),
    "postgres.js, in a savepoint": (use) => sql.begin((tx) => tx.savepoint((inner) => use(inner))),
    "postgres.js that spells names in Pascal case": (use) => pascal.begin((tx) => use(tx)),
    "drizzle over postgres.js": (use) => drizzleOverPostgresJs(sql).transaction((tx) => use(tx)),
  };
after(async () => {
  await sql.end();
  await pascal.end();
  await kysely.destroy();
});

for (const [library, transaction] of Object.entries(transactions)) {
  test(`a job joins the transaction of its caller: ${library}`, async () => {
    const ids: string[] = [];
    const enqueue = async (conn: Queryable) => {
      ids.push((await greet.using({ conn }).enqueue({ name: library })).id);
    };
    const gone = new Error("rolled back");
    const rolledBack = transaction(async (conn) => {
      await enqueue(conn);
      throw gone;
    });
    await assert.rejects(rolledBack, gone);
    await transaction(enqueue);
    await assert.rejects(jf.client.getJob(ids[0] ?? ""), errors.NotFound);
    assert.equal((await jf.client.getJob(ids[1] ?? "")).state, "queued");
    const unknown = jf.job(unique("unknown"), {}, () => undefined);
    const refused = transaction(async (conn) => {
      await unknown.using({ conn }).enqueue({});
    });
    await assert.rejects(refused, errors.UnknownDefinition);
  });
}

test("an event is kept with the transaction that emits it, or not at all", async () => {
  const name = unique("order.paid");
  const tenantId = await jf.client.tenantId(undefined);
  const emit = (client: pg.Client) => jf.emit(name, { order: 7 }, { conn: client });
  const kept = await withClient(async (client) => {
    await client.query("begin");
    await emit(client);
    await client.query("rollback");
    const id = await emit(client);
    const text = "select id from jobforge.events where name = $1 and tenant_id = $2";
    assert.deepEqual((await client.query(text, [name, tenantId])).rows, [{ id }]);
    return id;
  }, "superuser");
  assert.notEqual(await jf.emit(name), kept);
  const keyed = await jf.emit(name, {}, { key: "order-7" });
  const rows = await withClient(async (client) => {
    const text = "select key from jobforge.events where id = $1";
    return (await client.query(text, [keyed])).rows;
  }, "superuser");
  assert.deepEqual(rows, [{ key: "order-7" }]);
  await assert.rejects(jf.emit("no name"), { code: "invalid" });
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

test("a handle by ID reschedules, explains, cancels and retries its job", async () => {
  const { id } = await greet.enqueue({ name: "Ada" });
  const handle = await jf.jobOf(id);
  assert.equal(handle.status, "existing");
  const later = new Date(Date.now() + 3_600_000);
  assert.equal(await handle.reschedule(later), "scheduled");
  assert.equal((await handle.explain())[0]?.code, "scheduled");
  assert.equal(new Date((await handle.job()).run_at).getTime(), later.getTime());
  assert.equal(await handle.reschedule(null), "queued");
  assert.equal(await handle.cancel("not now"), "canceled");
  assert.equal((await handle.job()).cancel_reason, "not now");
  const again = await handle.retry({ payload: { name: "Eve" } });
  assert.notEqual(again.id, id);
  assert.deepEqual((await again.job()).payload, { name: "Eve" });
  await assert.rejects(again.retry(), errors.Conflict);
  assert.deepEqual(await again.logs(), []);
  await assert.rejects((await jf.jobOf(id, { tenant: randomUUID() })).job(), errors.NotFound);
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
    const hidden = { toJSON: () => [value] };
    await assert.rejects(open.enqueue({ value: hidden }), errors.InvalidPayload, String(value));
  }
});

test("the refusal names the path of the value", async () => {
  const open = jf.job(unique("open"), { params: z.object({ items: z.unknown() }) }, () => 0);
  const items = [{ price: 1 }, { price: 10n ** 400n }];
  await assert.rejects(open.enqueue({ items }), (error: errors.InvalidPayload) => {
    assert.ok(error instanceof errors.InvalidPayload);
    assert.match(error.message, /a BigInt at \$\.items\[1\]\.price/);
    assert.deepEqual(error.detail, { path: "$.items[1].price" });
    return error.hint === "Send the number as a string";
  });
});

test("what says itself how it is written is sent so", async () => {
  class Itself {
    readonly number = 7;
    toJSON(): this {
      return this;
    }
  }
  const own = newApp();
  const open = own.job(greet.settings.key, { params: z.object({ name: z.unknown() }) }, () => 0);
  for (const [value, written] of [
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [new Itself(), { number: 7 }],
    [{ toJSON: () => new Itself() }, { number: 7 }],
  ]) {
    const handle = await open.enqueue({ name: value });
    assert.deepEqual((await handle.job()).payload, { name: written });
  }
  await own.close();
});

test("more than a year ahead is allowed by farFuture", async () => {
  const late = greet.using({ at: new Date(Date.now() + 800 * 24 * 3600 * 1000) });
  await assert.rejects(late.enqueue({ name: "Ada" }), { field: "run_at" });
  const handle = await late.using({ farFuture: true }).enqueue({ name: "Ada" });
  assert.equal((await handle.job()).state, "scheduled");
});

test("the types of arguments and results are those of the schemas", () => {
  const typed = jf.job(
    unique("typed"),
    { params: z.object({ to: z.string() }), result: z.object({ sent: z.number() }) },
    async () => ({ sent: 1 }),
  );
  // @ts-expect-error: `to` is a text
  const wrong = () => typed.enqueue({ to: 1 });
  const stored = async (ctx: Context) => {
    const step = await ctx.step("when", () => ({ at: new Date(), note: undefined as never }));
    const text: string = step.at;
    return text;
  };
  assert.equal(typeof stored, "function");
  // @ts-expect-error: the result has `sent`
  const missing = async () => (await (await typed.enqueue({ to: "x" })).result()).gone;
  assert.equal(typeof wrong, typeof missing);
});
