/** Runs every case of contract/cases on this SDK, on a real Postgres. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { after, test } from "node:test";
import { z } from "zod";
import { query } from "../src/calls/call.ts";
import { errorFromSqlstate, translateError } from "../src/db/sqlstates.ts";
import {
  Cancel,
  type Context,
  Dead,
  errors,
  JobForge,
  Retry,
  redact,
  redactText,
  registerSecret,
  Snooze,
  verifyWebhook,
} from "../src/index.ts";
import {
  hide,
  isSecretName,
  jobScope,
  LOG_SCOPE,
  redactTail,
  registerJobSecret,
  registerOperatorSecret,
} from "../src/redact/index.ts";
import { CURRENT_SCOPE } from "../src/redact/scope.ts";
import type { Definition } from "../src/sdk/definition.ts";
import type { ClaimedJob } from "../src/types/jobs.ts";
import { Worker } from "../src/worker/index.ts";
import { until, urlOf } from "./setup.ts";

type Value = null | boolean | number | string | Value[] | { [name: string]: Value };
type Members = { [name: string]: Value };

const CONTRACT = new URL("../../../contract/", import.meta.url);
const read = (path: string): Members => JSON.parse(readFileSync(new URL(path, CONTRACT), "utf8"));

const database = new JobForge(urlOf()).database();
after(() => database.close());

/** The payload of a case: what the handler does. */
const SCRIPT = z.object({
  do: z.string(),
  value: z.json().optional(),
  message: z.string().default("failed"),
  after: z.number().default(0),
});

type Scripted = Definition<typeof SCRIPT, Value>;

async function runScript(
  ctx: Context,
  script: z.output<typeof SCRIPT>,
  self: () => Scripted,
): Promise<Value> {
  switch (script.do) {
    case "return":
      return (script.value ?? null) as Value;
    case "dead":
      throw new Dead(script.message);
    case "cancel":
      throw new Cancel(script.message);
    case "retry":
      throw new Retry(script.message, { after: script.after });
    case "snooze":
      throw new Snooze(script.after);
    case "step": {
      const stored = await ctx.step("count", () => ctx.attempt);
      if (ctx.attempt === 1) throw new Error(script.message);
      return { stored, attempt: ctx.attempt };
    }
    case "hoard":
      return await ctx.step("hoard", () => "x".repeat(1024 ** 2));
    case "sleep": {
      const first = await ctx.step("turn", () => 0);
      await ctx.sleep(script.after);
      return [first, await ctx.step("turn", async (turn: number) => turn, 1)];
    }
    case "wait": {
      const match = script.value as Record<string, number>;
      const event = await ctx.waitForEvent(script.message, {
        match,
        timeout: script.after,
      });
      return event.data as Value;
    }
    case "wait_since": {
      const match = script.value as Record<string, number>;
      const since = new Date(Date.now() - 3_600_000);
      const event = await ctx.waitForEvent(script.message, {
        match,
        timeout: script.after,
        since,
      });
      return event.data as Value;
    }
    case "gather":
    case "gather_all": {
      const children = script.value as z.input<typeof SCRIPT>[];
      const handles = await ctx.enqueueMany(self(), children);
      if (script.do === "gather") return await ctx.gather(handles);
      const found = await ctx.gather(handles, { returnFailures: true });
      return found.map((each) =>
        each instanceof errors.ChildFailed ? (each.detail.state as Value) : each,
      );
    }
    default:
      throw new Error(script.message);
  }
}

/** Runs the steps of a case with this SDK. */
class CaseRunner {
  readonly #saved = new Map<string, Value>();
  readonly #braces = new Map<string, string>([
    ["{case}", randomUUID().replaceAll("-", "").slice(0, 10)],
    ...["tenant", "tenant2", "worker", "worker2"].map(
      (name) => [`{${name}}`, randomUUID()] as const,
    ),
  ]);
  readonly #app = new JobForge(urlOf());
  readonly #definitions = new Map<string, Scripted>();

  async runStep(step: Members): Promise<void> {
    let rows: Value;
    try {
      rows = await this.#rowsOf(step);
    } catch (error) {
      if (!(error instanceof errors.JobForgeError) || step.code === undefined) throw error;
      assert.equal(error.code, step.code);
      if (step.field !== undefined) assert.equal(error.field, step.field);
      this.assertMatches(error.detail as Members, step.detail ?? {}, "detail");
      return;
    }
    assert.equal(step.code, undefined, `it was not refused: ${JSON.stringify(rows)}`);
    if (step.rows === undefined) return;
    const order = (each: Value) => (step.unordered ? sortRows(each as Members[]) : each);
    const expected = step.unordered ? this.substitute(step.rows) : step.rows;
    this.assertMatches(order(rows), order(expected), JSON.stringify(step));
  }

  async close(): Promise<void> {
    await this.#app.close();
  }

  substitute(value: Value): Value {
    if (typeof value === "string") {
      let filled = value;
      for (const [brace, name] of this.#braces) filled = filled.replaceAll(brace, name);
      return filled;
    }
    if (Array.isArray(value)) return value.map((each) => this.substitute(each));
    if (typeof value !== "object" || value === null) return value;
    if (isOnly(value, "$ref")) return this.#saved.get(String((value as Members).$ref)) ?? null;
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, this.substitute(each)]),
    );
  }

  /**
   * Compare a value with the expectation. Of an object, only the named members; `$save` stores the
   * value.
   */
  assertMatches(seen: Value | undefined, expected: Value, where: string): void {
    if (isOnly(expected, "$save")) {
      this.#saved.set(String((expected as Members).$save), seen ?? null);
    } else if (Array.isArray(expected)) {
      assert.ok(
        Array.isArray(seen) && seen.length === expected.length,
        `${where}: ${JSON.stringify(seen)}`,
      );
      expected.forEach((each, index) => {
        this.assertMatches(seen[index], each, `${where}[${index}]`);
      });
    } else if (isObject(expected) && !isOnly(expected, "$ref")) {
      assert.ok(isObject(seen), `${where}: ${JSON.stringify(seen)}`);
      for (const [name, each] of Object.entries(expected))
        this.assertMatches(seen[name], each, `${where}.${name}`);
    } else {
      assert.deepEqual(seen ?? null, this.substitute(expected), where);
    }
  }

  async #rowsOf(step: Members): Promise<Value> {
    if (step.call !== undefined) return await this.#call(String(step.call), step.args as Members);
    if (step.select !== undefined) {
      const text = String(step.select).replace("$1", "$1::text::uuid");
      return await rowsOf(text, this.substitute(step.args ?? []) as Value[]);
    }
    if (step.define !== undefined)
      return await this.#define(this.substitute(step.define) as Members);
    if (step.enqueue !== undefined) return await this.#enqueue(step);
    return await this.#work(step.work as Record<string, Members>);
  }

  async #call(name: string, args: Members): Promise<Value> {
    const types = await typesOf(name);
    const given = Object.entries(this.substitute(args) as Members);
    const list = given.map(
      ([each], index) => `${each} => ${castParameter(types.get(each) ?? "", index + 1)}`,
    );
    const values = given.map(([, value]) =>
      value === null || typeof value === "string" ? value : JSON.stringify(value),
    );
    return await rowsOf(`select * from jobforge.${name}(${list.join(", ")}) as value`, values);
  }

  async #define(given: Members): Promise<Value> {
    const { key, queue, max_attempts = 5, base = 1 } = given;
    const definition: Scripted = this.#app.job<typeof SCRIPT, Value>(
      String(key),
      {
        queue: String(queue),
        isolation: "inline",
        retry: { maxAttempts: Number(max_attempts), base: Number(base) },
        params: SCRIPT,
      },
      (ctx, script) => runScript(ctx, script, () => definition),
    );
    this.#definitions.set(String(key), definition);
    await this.#app.register();
    return null;
  }

  async #enqueue(step: Members): Promise<Value> {
    const given = this.substitute(step.enqueue ?? {}) as {
      key: string;
      payload: Members;
      using: Members;
    };
    const using = Object.fromEntries(
      Object.entries(given.using).map(([name, value]) => [toCamelCase(name), value]),
    );
    const payload = given.payload as z.input<typeof SCRIPT>;
    const definition = this.#definitions.get(given.key);
    const handle = await definition?.using(using).enqueue(payload);
    if (step.save !== undefined) this.#saved.set(String(step.save), handle?.id ?? null);
    if (step.status !== undefined) assert.equal(handle?.status, step.status);
    return null;
  }

  async #work(expected: Record<string, Members>): Promise<Value> {
    const queues = [...this.#definitions.values()].map(({ settings }) => [settings.queue, 10]);
    const worker = new Worker(this.#app, { queues: Object.fromEntries(queues), pollS: 0.1 });
    const running = worker.run();
    for (const [name, job] of Object.entries(expected)) {
      await until(async () => {
        const seen = await this.#job(name);
        // A waiting job that was never claimed has not run yet.
        return seen.state === job.state && seen.lease !== 0;
      }, 60);
    }
    worker.stop();
    await running;
    for (const [name, job] of Object.entries(expected))
      this.assertMatches(await this.#job(name), job, name);
    return null;
  }

  async #job(name: string): Promise<Members> {
    const values = [this.#saved.get(name) ?? null, this.#braces.get("{tenant}") ?? null];
    const rows = await rowsOf(
      "select job from jobforge.get_job($1::text::uuid, $2::text::uuid)",
      values,
    );
    return (rows as { job: Members }[])[0]?.job ?? {};
  }
}

const files = readdirSync(new URL("cases/", CONTRACT)).map((name) => name.replace(".json", ""));
const tables = ["redaction", "templates", "webhooks"]; // tables of inputs and outputs without steps
for (const file of files.filter((name) => !tables.includes(name))) {
  for (const { name, steps } of read(`cases/${file}.json`).cases as {
    name: string;
    steps: Members[];
  }[]) {
    test(`${file}: ${name}`, async () => {
      const runner = new CaseRunner();
      try {
        for (const step of steps) await runner.runStep(step);
      } finally {
        await runner.close();
      }
    });
  }
}

test("what is secret is hidden as the contract says", () => {
  const contract = read("cases/redaction.json") as unknown as {
    registered: string[];
    texts: [string, string][];
    values: [Value, Value][];
    names: Record<string, boolean>;
  };
  for (const value of contract.registered) registerSecret(value);
  for (const [given, shown] of contract.texts) assert.equal(redactText(given), shown);
  for (const [given, shown] of contract.values) assert.deepEqual(redact(given), shown);
  for (const [name, isSecret] of Object.entries(contract.names)) {
    assert.equal(isSecretName(name), isSecret, name);
  }
});

interface ScopeCase {
  readonly name: string;
  readonly payload?: string;
  readonly operator?: readonly string[];
  readonly app?: readonly string[];
  readonly job?: readonly string[];
  readonly output?: readonly [Value, Value][];
  readonly other?: readonly [Value, Value][];
  readonly log?: readonly [Value, Value][];
}

for (const scoped of (read("cases/redaction.json") as unknown as { scopes: ScopeCase[] }).scopes) {
  test(`redaction: ${scoped.name}`, () => {
    const tenant = randomUUID();
    const [own, other] = [scoped.payload ?? "{}", "{}"].map((payload_json) =>
      jobScope({ tenant_id: tenant, payload_json } as ClaimedJob),
    );
    assert.ok(own && other);
    for (const value of scoped.operator ?? []) assert.ok(registerOperatorSecret(value));
    for (const value of scoped.app ?? []) assert.ok(registerSecret(value));
    for (const value of scoped.job ?? []) assert.ok(own.add(value) && registerJobSecret(value));
    for (const [given, shown] of scoped.output ?? []) assert.deepEqual(hide(given, own), shown);
    for (const [given, shown] of scoped.other ?? []) assert.deepEqual(hide(given, other), shown);
    for (const [given, shown] of scoped.log ?? []) assert.deepEqual(hide(given, LOG_SCOPE), shown);
  });
}

const webhooks = read("cases/webhooks.json") as unknown as {
  headers: Record<string, string>;
  body: string;
  receptions: {
    name: string;
    secret: string;
    at: number;
    headers?: Record<string, string | null>;
    body?: string;
    taken: boolean;
    code?: string;
    field?: string;
  }[];
};
for (const reception of webhooks.receptions) {
  reception.code ??= "unauthenticated";
  test(`webhooks: ${reception.name}`, () => {
    const headers = Object.entries({ ...webhooks.headers, ...reception.headers });
    const given = Object.fromEntries(headers.filter(([, value]) => value !== null)) as Record<
      string,
      string
    >;
    const body = reception.body ?? webhooks.body;
    const now = new Date(reception.at * 1000);
    const asServed = () => verifyWebhook(reception.secret, given, Buffer.from(body), { now });
    const asFetched = () => verifyWebhook(reception.secret, new Headers(given), body, { now });
    for (const verify of [asServed, asFetched]) {
      if (reception.taken) assert.equal(verify().type, "job.succeeded");
      else assert.throws(verify, { code: reception.code, field: reception.field });
    }
  });
}

test("texts are shown as Python shows them", { skip: !process.env.JOBFORGE_TEST_TEXTS }, () => {
  const text = readFileSync(process.env.JOBFORGE_TEST_TEXTS ?? "", "utf8");
  registerSecret("correct horse battery");
  for (const [given, shown, tail] of JSON.parse(text) as [string, string, string][]) {
    assert.equal(redactText(given), shown, given);
    assert.equal(redactTail(given, true, CURRENT_SCOPE), tail, given);
    assert.equal(redactText(shown), shown, "what was hidden stays as it is");
  }
});

test("each error has the code that the contract says", () => {
  const contract = read("errors.json") as unknown as {
    classes: { name: string; code: string; sqlstate: string | null }[];
  };
  const known = new Map(errors.ERRORS.map((error) => [error.name, error]));
  for (const { name, code, sqlstate } of contract.classes) {
    assert.equal(known.get(name)?.code, code);
    if (sqlstate !== null) assert.equal(errorFromSqlstate(sqlstate, "x", "{}").name, name);
  }
  assert.equal(known.size, contract.classes.length);
});

test("the hint of a refusal is the hint of the error", () => {
  const refused = Object.assign(new Error("no"), { code: "JF012", detail: "{}", hint: "Call it" });
  const error = translateError(refused);
  assert.ok(error instanceof errors.WrongIsolation);
  assert.equal(error.hint, "Call it");
  assert.equal(errorFromSqlstate("JF002", "no").hint, undefined);
});

async function rowsOf(sql: string, values: readonly Value[]): Promise<Value> {
  const statement = `select to_json(x)::text from (${sql}) as x`;
  return await database.run(
    query("case", statement, values as (string | number | boolean | null)[], (rows) =>
      rows.map(([row]) => JSON.parse(row ?? "null") as Value),
    ),
  );
}

async function typesOf(name: string): Promise<Map<string, string>> {
  const rows = await rowsOf(
    `select a.name, format_type(a.type, null) as type
       from pg_proc as p, unnest(p.proargnames, p.proargtypes::oid[]) as a(name, type)
      where p.pronamespace = 'jobforge'::regnamespace and p.proname = $1 and a.type is not null`,
    [name],
  );
  return new Map((rows as { name: string; type: string }[]).map((row) => [row.name, row.type]));
}

function castParameter(type: string, number: number): string {
  if (!type.endsWith("[]")) return `$${number}::text::${type}`;
  return `array(select jsonb_array_elements_text($${number}::text::jsonb))::${type}`;
}

function toCamelCase(name: string): string {
  return name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** Sort rows whose order is not defined, in results and in expectations. */
function sortRows(rows: readonly Members[]): Value {
  return rows.toSorted((a, b) => (String(a.tenant_id) < String(b.tenant_id) ? -1 : 1));
}

function isObject(value: Value | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isOnly(value: Value, member: string): boolean {
  return isObject(value) && Object.keys(value).length === 1 && member in value;
}
