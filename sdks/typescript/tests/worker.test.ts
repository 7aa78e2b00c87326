/** The worker with inline jobs: outcomes, stops, leases, outages, hooks. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { test } from "node:test";
import { z } from "zod";
import type { JsonArgument } from "../src/calls/call.ts";
import type { BackgroundLoop } from "../src/db/background-loop.ts";
import type { MonitoredLink } from "../src/db/outage.ts";
import { Cancel, Dead, errors, JobForge, type JsonObject, Retry, Snooze } from "../src/index.ts";
import type { JobOptions } from "../src/sdk/definition-settings.ts";
import { Secrets } from "../src/security/secret-lookup.ts";
import type { ClaimedJob } from "../src/types/jobs.ts";
import { Claimer } from "../src/worker/claimer.ts";
import { now } from "../src/worker/clock.ts";
import { configureLogs, Worker } from "../src/worker/index.ts";
import { type ClaimBuffer, Launcher, mapServedDefinitions } from "../src/worker/launcher.ts";
import { LeaseTable } from "../src/worker/leases.ts";
import { RELEASED, type Report, SUCCEEDED } from "../src/worker/runner-protocol.ts";
import type { Settler } from "../src/worker/settler.ts";
import { Slots } from "../src/worker/slots.ts";
import { StepWriter } from "../src/worker/step-writer.ts";
import { newApp, unique, until, urlOf, withClient, withWorker } from "./setup.ts";

/** Return a queue that only this test's worker serves, and settings of inline jobs on it. */
function inlineQueue(): { queues: Record<string, number>; inline: JobOptions<z.ZodObject, never> } {
  const queue = unique("q");
  return {
    queues: { [queue]: 20 },
    inline: { queue, isolation: "inline", retry: { base: 0.001 } },
  };
}

test("a handler's answer is the result of its handle", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const add = jf.job(
    unique("add"),
    {
      ...inline,
      params: z.object({ left: z.number(), right: z.number().default(1) }),
      result: z.object({ sum: z.number() }),
    },
    async (_ctx, { left, right }) => ({ sum: left + right }),
  );
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handle = await add.enqueue({ left: 2 });
    assert.deepEqual(await handle.result({ timeout: 20 }), { sum: 3 });
  });
});

/** Return two jobs that double a number; the test damages `bad`. */
async function enqueueDoubles() {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const double = jf.job(
    unique("double"),
    { ...inline, params: z.object({ number: z.number() }) },
    async (_ctx, { number }) => 2 * number,
  );
  await jf.register();
  const bad = await double.enqueue({ number: 1 });
  const good = await double.enqueue({ number: 21 });
  return { jf, queues, bad, good };
}

test("a payload that cannot be sent ends its job and no other", async () => {
  const { jf, queues, bad, good } = await enqueueDoubles();
  await withClient(async (client) => {
    const numbers = `[${Array(9000).fill("1e131071").join(",")}]`;
    await client.query("begin");
    // so that triggers do not run, as in a restore
    await client.query("set local session_replication_role = replica");
    await client.query(
      "update jobforge.jobs set payload = jsonb_build_object('number', $1::jsonb) where id = $2",
      [numbers, bad.id],
    );
    await client.query("commit");
  });
  await withWorker(jf, { queues }, async () => {
    assert.equal(await good.result({ timeout: 20 }), 42);
    await assert.rejects(bad.result({ timeout: 20 }), (error: errors.JobFailed) => {
      assert.equal(error.detail.state, "dead");
      return error instanceof errors.JobFailed;
    });
  });
});

test("steps that cannot be sent end their job and no other", async () => {
  const { jf, queues, bad, good } = await enqueueDoubles();
  await withClient(async (client) => {
    await client.query("update jobforge.jobs set flags = flags | 4 where id = $1", [bad.id]);
    await client.query(
      `insert into jobforge.steps (tenant_id, job_id, lease, at, index, bytes, kind, name, result)
       select $1, $2, 1, now(), n, 2097152, 'event', 'paid', 'null' from generate_series(1, 17) n`,
      [bad.tenantId, bad.id],
    );
  });
  await withWorker(jf, { queues }, async () => {
    assert.equal(await good.result({ timeout: 20 }), 42);
    const ended = await bad.wait({ timeout: 20 });
    assert.deepEqual([ended.state, ended.error?.type], ["dead", "UnreadableSteps"]);
  });
});

for (const sqlstate of ["54000", "53200"]) {
  test(`a claim that fails with ${sqlstate} is repeated without unreadable jobs`, async () => {
    const { claimer, sent, slots } = createFailingClaimer([sqlstate]);
    await claimer.step(IDLE_LOOP);
    await claimer.end();
    assert.deepEqual(sent, ["claim_jobs", "claim_readable_jobs"]);
    assert.deepEqual([...slots.limits(100)], [["q", 20]]);
  });
}

test("a claim that fails otherwise is not repeated, nor is the second one", async () => {
  for (const sqlstates of [["57014"], ["54000", "54000"]]) {
    const { claimer, sent, slots } = createFailingClaimer(sqlstates);
    await assert.rejects(claimer.step(IDLE_LOOP), errors.JobForgeError);
    assert.equal(sent.length, sqlstates.length);
    assert.deepEqual([...slots.limits(100)], [["q", 20]]);
  }
});

const IDLE_LOOP = { waitForWake: async () => false } as unknown as BackgroundLoop;

/** Return a claimer whose calls fail with these SQLSTATEs in turn, and then return no job. */
function createFailingClaimer(sqlstates: readonly string[]) {
  const sent: string[] = [];
  const link = {
    run: async (call: { readonly function: string }) => {
      const sqlstate = sqlstates[sent.length];
      sent.push(call.function);
      if (sqlstate !== undefined) throw new errors.JobForgeError(null, { detail: { sqlstate } });
      return [];
    },
  } as unknown as MonitoredLink;
  const settings = { workerId: randomUUID(), registration: null as never, leaseS: 30, pollS: 1 };
  const slots = new Slots({ q: 20 });
  const settler = { hasRoomFor: () => true } as unknown as Settler;
  const parts = { slots, settler, claimBuffer: [], onClaimed: () => undefined };
  return { claimer: new Claimer(settings, link, parts), sent, slots };
}

test("what a job enqueues is of its correlation and its trace", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const child = jf.job(unique("child"), inline, () => undefined);
  const parent = jf.job(unique("parent"), inline, async () => {
    const handles = [await child.enqueue({}), ...(await child.enqueueMany([{}, {}]))];
    return handles.map(({ id }) => id);
  });
  const origin = { correlationId: "order-1", traceparent: "00-ab-cd-01" };
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const made = await (await parent.using(origin).enqueue({})).result({ timeout: 20 });
    const jobs = await Promise.all(made.map((id) => jf.client.getJob(id)));
    const seen = jobs.map(({ correlation_id, traceparent }) => [correlation_id, traceparent]);
    assert.deepEqual(seen, Array(3).fill(["order-1", "00-ab-cd-01"]));
  });
});

test("a handler may return what can be awaited and is no promise, as query builders do", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  // biome-ignore lint/suspicious/noThenProperty: it is what they have
  const query = { then: (resolve: (rows: number[]) => void) => resolve([1, 2]) };
  const select = jf.job(unique("select"), inline, () => query as unknown as Promise<number[]>);
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    assert.deepEqual(await (await select.enqueue({})).result({ timeout: 20 }), [1, 2]);
  });
});

test("any thrown value ends the attempt and is recorded as far as possible", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const unreadable = Object.defineProperty(new Error("x"), "stack", {
    get: () => {
      throw new Error("no");
    },
  });
  const verdictFromError: unknown[] = [
    { code: "23505", message: "card declined" },
    { code: 7 },
    new AggregateError([new Error("one"), new Error("two")]),
    unreadable,
    undefined,
  ];
  const params = z.object({ which: z.number() });
  const fail = jf.job(unique("fail"), { ...inline, params, retry: 1 }, async (_ctx, { which }) => {
    throw verdictFromError[which];
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handles = await fail.enqueueMany(verdictFromError.map((_, which) => ({ which })));
    const jobs = await Promise.all(handles.map((handle) => handle.wait({ timeout: 20 })));
    assert.deepEqual(
      jobs.map(({ error }) => [error?.type, error?.message]),
      [
        ["object", "card declined"],
        ["object", '{"code":7}'],
        ["AggregateError", "one; two"],
        ["Error", "x"],
        ["undefined", "undefined"],
      ],
    );
  });
});

test("a log line may hold what refers to itself in many ways", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const talk = jf.job(unique("talk"), inline, (ctx) => {
    const request: Record<string, unknown> = {};
    request.socket = request.parser = request;
    ctx.log.info("sent", { request });
    ctx.log.info("received");
    return "said";
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handle = await talk.enqueue({});
    assert.equal(await handle.result({ timeout: 20 }), "said");
    const [first] = await handle.logs({ limit: 1 });
    const rest = await handle.logs({ after: first?.at ?? "" });
    assert.deepEqual(
      rest.map(({ data }) => (data as JsonObject).message),
      ["received"],
    );
  });
});

test("a payload that lies in the artifact store is refused, and so is a result", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const params = z.object({ text: z.string().optional() });
  const read = jf.job(unique("read"), { ...inline, params }, (_ctx, { text }) => text);
  const elsewhere = { $artifact: { ref: "artifact:x", bytes: 1, sha256: "0" } };
  const make = jf.job(unique("make"), inline, () => elsewhere);
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const request = { definition: read.key, payload: elsewhere };
    const [refused] = (await jf.client.enqueue([request], undefined, undefined)).jobs;
    await until(async () => (await jf.client.getJob(refused?.job_id ?? "")).state === "dead");
    const { attempts } = await jf.client.getHistory(refused?.job_id ?? "");
    assert.match(JSON.stringify(attempts), /enqueue a reference/);
    const made = await make.enqueue({});
    await assert.rejects(made.result({ timeout: 20 }), errors.Invalid);
  });
});

test("hundreds of jobs are claimed and settled in batches, each run once, as behind a pooler", async () => {
  const jf = new JobForge(urlOf(), { tenant: crypto.randomUUID(), behindPooler: true });
  const { inline } = inlineQueue();
  const seen: number[] = [];
  const noop = jf.job(
    unique("noop"),
    { ...inline, params: z.object({ n: z.number() }) },
    (_ctx, { n }) => {
      seen.push(n);
    },
  );
  const queues = { [noop.settings.queue]: 400 };
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    await noop.enqueueMany(Array.from({ length: 600 }, (_, n) => ({ n })));
    await until(
      async () => (await jf.client.listJobs({ state: ["queued", "running"] })).length === 0,
    );
  });
  assert.deepEqual(
    seen.sort((a, b) => a - b),
    Array.from({ length: 600 }, (_, n) => n),
  );
});

test("what a handler throws decides the outcome of its job", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  class Hopeless extends Error {}
  const ends: Record<string, () => never> = {
    dead: () => {
      throw new Dead("no use");
    },
    hopeless: () => {
      throw new Hopeless("never again");
    },
    cancel: () => {
      throw new Cancel("not wanted");
    },
    snooze: () => {
      throw new Snooze("1h");
    },
    later: () => {
      throw new Retry("soon", { after: 3600 });
    },
    broken: () => {
      throw new TypeError("password=hunter2secret is wrong");
    },
  };
  const act = jf.job(
    unique("act"),
    {
      ...inline,
      retry: { maxAttempts: 2, base: 0.001, giveUpOn: [Hopeless] },
      params: z.object({ how: z.string() }),
    },
    async (_ctx, { how }) => ends[how]?.(),
  );
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handles = await act.enqueueMany(Object.keys(ends).map((how) => ({ how })));
    const jobs = () => Promise.all(handles.map((handle) => handle.job()));
    const expected = ["dead", "dead", "canceled", "scheduled", "scheduled", "dead"];
    await until(async () => (await jobs()).every((job, index) => job.state === expected[index]));
    const [dead, hopeless, cancel, snooze, later, broken] = await jobs();
    assert.equal(dead?.error?.type, "Dead");
    assert.equal(hopeless?.attempt, 1);
    assert.equal(cancel?.cancel_reason, "not wanted");
    assert.equal(snooze?.attempt, 0);
    assert.equal(later?.attempt, 1);
    assert.equal(broken?.attempt, 2);
    assert.equal(broken?.error?.message, "password=[redacted] is wrong");
  });
});

test("a payload that does not fit, and a result that cannot be kept, are final", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const key = unique("strict");
  const loose = newApp("superuser", "aaaaaaaa-0000-4000-8000-000000000001");
  const sender = loose.job(key, { ...inline, params: z.looseObject({}) }, () => undefined);
  jf.job(key, { ...inline, params: z.object({ n: z.number() }) }, async (_ctx, { n }) =>
    n === 1 ? Number.NaN : ({ toJSON: () => "\0" } as never),
  );
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const [bad, good, hidden] = await sender.enqueueMany([{ n: "one" }, { n: 1 }, { n: 2 }]);
    assert.equal((await bad?.wait({ timeout: 20 }))?.error?.type, "InvalidPayload");
    assert.equal((await good?.wait({ timeout: 20 }))?.error?.type, "InvalidResult");
    assert.equal((await hidden?.wait({ timeout: 20 }))?.error?.type, "InvalidResult");
  });
  await loose.close();
});

test("a cancel and a timeout abort the signal of the handler", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const wait = jf.job(unique("wait"), { ...inline, retry: 1, timeout: 1 }, async (ctx) => {
    await once(ctx.signal, "abort");
    ctx.check();
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const timedOut = await wait.enqueue({});
    const canceled = await wait.using({ timeout: 60 }).enqueue({});
    await until(async () => (await canceled.job()).state === "running");
    assert.equal(await jf.client.cancelJob(canceled.id), "canceling");
    assert.equal((await canceled.wait({ timeout: 20 })).state, "canceled");
    const dead = await timedOut.wait({ timeout: 20 });
    assert.equal(dead.error?.type, "TimedOut");
  });
});

test("what a job says is kept, redacted, before its outcome", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  process.env.JOBFORGE_SECRET_SMTP_PASSWORD = "correct horse battery";
  const speak = jf.job(unique("speak"), inline, async (ctx) => {
    ctx.progress(1, 2, "half");
    ctx.emit("sent", { token: "abcdef" });
    ctx.log.info(`logging in with ${await ctx.secret("smtp.password")}`);
    return ctx.fence as never;
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handle = await speak.enqueue({});
    assert.match(await handle.result({ timeout: 20 }), new RegExp(`^${handle.id}\\.\\d+$`));
    const notes = await withClient(async (client) => {
      const text = "select kind, data from jobforge.list_notes($1, p_tenant_id => $2)";
      return (await client.query(text, [handle.id, handle.tenantId])).rows;
    });
    const said = Object.fromEntries(notes.map((note) => [note.kind, note.data]));
    assert.equal(said.progress.message, "half");
    assert.equal(said.event.data.token, "[redacted]");
    assert.equal(said.log.message, "logging in with [redacted]");
  });
});

test("a job cannot ask for the key of the installation", () => {
  process.env.JOBFORGE_SECRET_KEY = "00".repeat(32);
  process.env.JOBFORGE_SECRET_KEY_PREVIOUS = "11".repeat(32);
  for (const name of ["key", "KEY", "key.previous", "key_previous"]) {
    assert.throws(() => new Secrets().lookup(name), { code: "not_found" }, name);
  }
});

test("a wait cannot be caught, and what goes on beside it does no more steps", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const told: string[] = [];
  const wait = jf.job(unique("wait"), inline, async (ctx) => {
    try {
      await ctx.step("first", () => told.push("first"));
      await Promise.all([ctx.sleep(0.01), ctx.step("second", () => told.push("second"))]);
      return (told.splice(0) as string[]).join() as never;
    } catch (error) {
      told.push(`caught ${error}`);
    } finally {
      told.push("left");
    }
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handle = await wait.enqueue({});
    assert.equal(await handle.result({ timeout: 20 }), "first,second");
    const { attempts } = await jf.client.getHistory(handle.id);
    assert.deepEqual(
      attempts.map(({ outcome }) => outcome),
      ["snoozed", "succeeded"],
    );
  });
});

test("hooks run around an attempt and once after the end", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const told: string[] = [];
  jf.onEnd((ctx, state) => {
    told.push(`end ${ctx.attempt} ${state}`);
  });
  const job = jf
    .job(
      unique("hooked"),
      { ...inline, params: z.object({ fails: z.boolean() }) },
      async (_ctx, { fails }) => {
        if (fails) throw new Dead("no");
        return "yes" as never;
      },
    )
    .onStart((ctx) => {
      told.push(`start ${ctx.attempt}`);
    })
    .onSuccess((_ctx, result) => {
      told.push(`success ${result}`);
    })
    .onFail((_ctx, error) => {
      told.push(`fail ${error.message}`);
    });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    await job.enqueueMany([{ fails: false }, { fails: true }]);
    await until(() => told.length === 6);
  });
  assert.deepEqual(told.toSorted(), [
    "end 1 dead",
    "end 1 succeeded",
    "fail no",
    "start 1",
    "start 1",
    "success yes",
  ]);
});

test("a worker that stops releases what its claims ahead still bring", async () => {
  const jf = newApp();
  const { inline } = inlineQueue();
  let stop: () => void = () => undefined;
  const noop = jf.job(unique("noop"), inline, async () => stop());
  await jf.register();
  await noop.enqueueMany(Array.from({ length: 3_000 }, () => ({})));
  const queues = { [noop.settings.queue]: 1_000 };
  await withWorker(jf, { queues }, async (worker) => {
    // The first claim asks for a hundred jobs; while the next ones arrive, further claims are in
    // flight.
    let started = 0;
    await new Promise<void>((resolve) => {
      stop = () => {
        started += 1;
        if (started !== 101) return;
        worker.stop();
        resolve();
      };
    });
  });
  const counts = await withClient(async (client) => {
    const text = "select state, attempt from jobforge.all_jobs where definition = $1";
    return Object.groupBy(
      (await client.query(text, [noop.settings.key])).rows as { state: string; attempt: number }[],
      ({ state, attempt }) => `${state} ${attempt}`,
    );
  });
  assert.deepEqual(Object.keys(counts).toSorted(), ["queued 0", "succeeded 1"]);
});

test("a handler that ends its job in its own transaction is not settled twice", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const exact = jf.job(unique("exact"), inline, async (ctx) => {
    await withClient(async (client) => {
      await client.query("begin");
      await ctx.completeIn(client, { by: "transaction" });
      await client.query("commit");
    });
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handle = await exact.enqueue({});
    const job = await handle.wait({ timeout: 20 });
    assert.deepEqual([job.state, job.result], ["succeeded", { by: "transaction" }]);
  });
});

test("a result that cannot be kept leaves nothing of the handler", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const params = z.object({ kind: z.string() });
  const spend = jf.job(unique("spend"), { ...inline, params }, async (ctx, { kind }) => {
    await withClient(async (client) => {
      await client.query("begin");
      const text = kind === "too much" ? "x".repeat(2 ** 21) : Number.NaN;
      await ctx.completeIn(client, text);
      await client.query("commit");
    });
  });
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    for (const kind of ["too much", "no number"]) {
      const handle = await spend.enqueue({ kind });
      const { state, error } = await handle.wait({ timeout: 20 });
      assert.deepEqual([state, error?.type], ["dead", "InvalidResult"]);
      assert.equal(typeof error?.traceback, "string", "it is the handler who was told");
    }
  });
});

test("a worker that ends lets jobs finish; told twice, it hands them back", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  let started = 0;
  const wait = jf.job(
    unique("hold"),
    { ...inline, params: z.object({ stays: z.boolean() }) },
    async (ctx, { stays }) => {
      started += 1;
      if (!stays) return await gate;
      await once(ctx.signal, "abort");
      ctx.check();
    },
  );
  const reader = newApp("superuser", "aaaaaaaa-0000-4000-8000-000000000002");
  const [short, long] = await withWorker(jf, { queues, drainS: 60 }, async (worker) => {
    await until(() => isRegistered(jf));
    const handles = await wait
      .using({ tenant: "aaaaaaaa-0000-4000-8000-000000000002" })
      .enqueueMany([{ stays: false }, { stays: true }]);
    // A claimed job that has not started is released at once.
    await until(() => started === 2);
    worker.stop();
    release();
    await until(
      async () => (await reader.client.getJob(handles[0]?.id ?? "")).state === "succeeded",
    );
    worker.stop();
    return handles;
  });
  assert.equal((await reader.client.getJob(short?.id ?? "")).state, "succeeded");
  const released = await reader.client.getJob(long?.id ?? "");
  assert.deepEqual([released.state, released.attempt], ["queued", 0]);
  await reader.close();
});

test("a lease that another has taken is given up, and its outcome is not recorded", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  let aborted = false;
  const stay = jf.job(unique("stay"), inline, async (ctx) => {
    await once(ctx.signal, "abort");
    aborted = true;
    return "too late" as never;
  });
  await withWorker(jf, { queues, leaseS: 2, heartbeatS: 0.5 }, async () => {
    await until(() => isRegistered(jf));
    const handle = await stay.enqueue({});
    await until(async () => (await handle.job()).state === "running");
    await withClient((client) =>
      client.query(
        "update jobforge.jobs set lease = lease + 1, worker_id = gen_random_uuid() where id = $1",
        [handle.id],
      ),
    );
    await until(() => aborted);
    assert.equal((await handle.job()).state, "running");
  });
});

/** Return a run that only records its calls, and the recorded calls. */
function recordingRun() {
  const [stops, deadlines]: [string[], number[]] = [[], []];
  const job = { job_id: randomUUID(), lease: 1 } as ClaimedJob;
  const run = {
    ...{ job, hasEnded: false },
    stop: (why: string) => void stops.push(why),
    extend: (deadline: number) => void deadlines.push(deadline),
  };
  return { job, run, stops, deadlines };
}

test("a job whose lease has run out before it was started is released", async () => {
  const definition = newApp().job(unique("late"), { isolation: "inline" }, () => undefined);
  const served = mapServedDefinitions(
    [definition],
    new Map([["inline", { ...IDLE, start: () => SUCCEEDED }]]),
  );
  const [late, timely] = [recordingRun(), recordingRun()].map(
    ({ job }): ClaimedJob => ({ ...job, definition: definition.settings.key, version: 1 }),
  ) as [ClaimedJob, ClaimedJob];
  const ready: ClaimBuffer = [
    { jobs: [late], deadline: now() - 1, started: 0 },
    { jobs: [timely], deadline: now() + 30, started: 0 },
  ];
  const ended: [ClaimedJob, Report][] = [];
  const onEnd = (job: ClaimedJob, report: Report) => void ended.push([job, report]);
  const launcher = new Launcher(ready, served, new LeaseTable(30), onEnd);
  while (ready.length > 0) await launcher.step({} as BackgroundLoop);
  assert.deepEqual(ended, [
    [late, RELEASED],
    [timely, SUCCEEDED],
  ]);
});

const IDLE = { open: async () => {}, close: async () => {} };

test("a step that comes too late ends the run of its job", async () => {
  const { job, run, stops } = recordingRun();
  const leases = new LeaseTable(30);
  const line = { run: async () => ["lost"] } as unknown as MonitoredLink;
  const stepWriter = new StepWriter(randomUUID(), line, leases);
  leases.hold(
    run,
    now() + 30,
    setTimeout(() => undefined),
  );
  const stored = stepWriter.add(job, "charge", 0, null);
  await Promise.all([
    assert.rejects(stored, errors.LeaseLost),
    stepWriter.step({} as BackgroundLoop),
  ]);
  assert.deepEqual(stops, ["lost"]);
  leases.drop(job);
});

test("a step that cannot be stored fails only its own job", async () => {
  const { job } = recordingRun();
  const sizes: number[] = [];
  const run = async (call: { readonly arguments: { readonly steps: JsonArgument } }) => {
    const steps = JSON.parse(call.arguments.steps.text) as { name: string }[];
    sizes.push(steps.length);
    if (steps.some(({ name }) => name === "bad")) throw new errors.Invalid("planted");
    return steps.map(() => "ok");
  };
  const stepWriter = new StepWriter(
    randomUUID(),
    { run } as unknown as MonitoredLink,
    new LeaseTable(30),
  );
  const names = ["first", "second", "bad", "last"];
  const stored = Promise.allSettled(names.map((name) => stepWriter.add(job, name, 0, null)));
  const loop = { waitForWake: async () => {} } as unknown as BackgroundLoop;
  while (sizes.length < 5) await stepWriter.step(loop);
  assert.deepEqual(sizes, [4, 2, 2, 1, 1]);
  assert.deepEqual(
    (await stored).map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected", "fulfilled"],
  );
});

test("a lease that has run out by our own clock is given up, and never extended again", () => {
  const { job, run, stops, deadlines } = recordingRun();
  const leases = new LeaseTable(30);
  leases.hold(
    run,
    now(),
    setTimeout(() => undefined),
  );
  leases.stopOverdue();
  leases.renew(now(), [{ job_id: job.job_id, lease: job.lease, status: "ok" }]);
  assert.deepEqual([stops, deadlines.length], [["lost"], 1]);
  leases.drop(job);
});

test("a heartbeat that is held neither extends the lease nor stops the job", () => {
  const { job, run, stops, deadlines } = recordingRun();
  const leases = new LeaseTable(30);
  const deadline = now() + 10;
  leases.hold(
    run,
    deadline,
    setTimeout(() => undefined),
  );
  const beat = { job_id: job.job_id, lease: job.lease };
  assert.equal(leases.renew(now(), [{ ...beat, status: "held" }]), true);
  assert.deepEqual([stops, deadlines], [[], [deadline]]);
  assert.equal(leases.renew(now(), [{ ...beat, status: "ok" }]), false);
  assert.equal(deadlines.length, 2);
  leases.drop(job);
});

test("a lease that runs out while a heartbeat is unanswered is given up to be released", () => {
  const { job, run, stops } = recordingRun();
  const leases = new LeaseTable(30);
  leases.hold(
    run,
    now(),
    setTimeout(() => undefined),
  );
  leases.isUnanswered = true;
  leases.stopOverdue();
  assert.deepEqual(stops, ["expired"]);
  leases.drop(job);
});

test("an outcome of a locked job does not delay the other outcomes", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  let end = () => {};
  const ending = new Promise<void>((resolve) => {
    end = resolve;
  });
  const held = jf.job(unique("held"), inline, async () => await ending);
  const quick = jf.job(unique("quick"), inline, () => undefined);
  await withWorker(jf, { queues }, async () => {
    await until(() => isRegistered(jf));
    const handle = await held.enqueue({});
    await until(async () => (await handle.job()).state === "running");
    await withClient(async (client) => {
      await client.query("begin");
      await client.query("select from jobforge.jobs where id = $1 for update", [handle.id]);
      end();
      await (await quick.enqueue({})).result({ timeout: 20 });
      await client.query("rollback");
    });
    assert.equal((await handle.wait({ timeout: 20 })).state, "succeeded");
  });
});

test("a job whose child is locked for longer than its lease is settled later, and runs once", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  let [ran, end] = [0, () => {}];
  const ending = new Promise<void>((resolve) => {
    end = resolve;
  });
  const held = jf.job(unique("held"), inline, async () => {
    ran += 1;
    await ending;
  });
  const quick = jf.job(unique("quick"), inline, () => undefined);
  await withWorker(jf, { queues, leaseS: 2, heartbeatS: 0.5 }, async (worker) => {
    await until(() => isRegistered(jf));
    const handle = await held.enqueue({});
    await until(() => ran === 1);
    await withClient(async (client) => {
      const lastBeat = async () => {
        const { rows } = await client.query(
          "select extract(epoch from heartbeat_at)::float8 as at from jobforge.workers where id = $1",
          [worker.workerId],
        );
        return Number(rows[0]?.at);
      };
      const child = await client.query(
        `select e.job_id
           from jobforge.jobs as j,
                jobforge.enqueue_jobs(jsonb_build_array(jsonb_build_object(
                    'definition', j.definition, 'after', jsonb_build_array(j.id))), j.tenant_id) as e
          where j.id = $1`,
        [handle.id],
      );
      await client.query("begin");
      await client.query("select from jobforge.jobs where id = $1 for update", [
        child.rows[0]?.job_id,
      ]);
      const since = await lastBeat();
      end();
      await (await quick.enqueue({})).result({ timeout: 20 });
      await until(async () => (await lastBeat()) > since + 5);
      assert.equal((await handle.job()).state, "running");
      await client.query("rollback");
    });
    const job = await handle.wait({ timeout: 20 });
    assert.deepEqual([job.state, job.attempt], ["succeeded", 1]);
    await until(() => ran === 2); // the child job is free
  });
  assert.equal(ran, 2);
});

test("a claim registers a worker that the database has forgotten", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const quick = jf.job(unique("quick"), inline, () => undefined);
  await withWorker(jf, { queues, leaseS: 600, heartbeatS: 200, pollS: 0.1 }, async (worker) => {
    await until(() => worker.isRunning);
    await withClient(async (client) => {
      await client.query("delete from jobforge.workers where id = $1", [worker.workerId]);
      await (await quick.enqueue({})).result({ timeout: 20 });
      const { rowCount } = await client.query("select from jobforge.workers where id = $1", [
        worker.workerId,
      ]);
      assert.equal(rowCount, 1);
    });
  });
});

test("outcomes are kept while connections are lost, and recorded after", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const lines: string[] = [];
  configureLogs({ write: (line) => lines.push(line) });
  let ran = 0;
  const count = jf.job(unique("count"), inline, async () => {
    ran += 1;
  });
  await withWorker(jf, { queues }, async (worker) => {
    await until(() => isRegistered(jf));
    for (let round = 0; round < 3; round++) {
      await count.enqueueMany(Array.from({ length: 40 }, () => ({})));
      await withClient(async (client) => {
        // A lock delays the call, so that it is in flight when its connection is closed.
        await client.query("begin; lock table jobforge.jobs in access exclusive mode");
        const others = `from pg_stat_activity where application_name = 'jobforge'
          and datname = current_database() and pid <> pg_backend_pid()`;
        await until(async () => {
          // Within a transaction, Postgres caches statistics of other sessions.
          await client.query("select pg_stat_clear_snapshot()");
          const waiting = await client.query(`select ${others} and wait_event_type = 'Lock'`);
          return waiting.rowCount !== 0;
        });
        await client.query(`select pg_terminate_backend(pid) ${others}`);
        await client.query("rollback");
      });
      await until(async () => {
        const open = { state: ["queued", "running", "scheduled"], definition: count.settings.key };
        return (await retryWhileUnavailable(() => jf.client.listJobs(open))).length === 0;
      }, 60);
    }
    assert.ok(worker.isRunning);
  });
  configureLogs({ level: "critical" });
  assert.ok(ran >= 120);
  const events = lines.map((line) => JSON.parse(line) as { event: string; timestamp: string });
  assert.ok(events.some((line) => line.event === "database.lost"));
  assert.ok(events.some((line) => line.event === "database.back"));
  assert.ok(!events.some((line) => line.event === "worker.failed"), lines.join(""));
});

test("a notification wakes a worker long before it would poll", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  const wake = jf.job(unique("wake"), inline, async () => undefined);
  const lines: string[] = [];
  configureLogs({ write: (line) => lines.push(line) });
  await withWorker(jf, { queues, pollS: 3600 }, async () => {
    await until(() => isRegistered(jf));
    for (let round = 0; round < 3; round++) {
      assert.equal((await (await wake.enqueue({})).wait({ timeout: 60 })).state, "succeeded");
    }
  });
  configureLogs({ level: "critical" });
  const [started, stopped] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(started?.event, "worker.started");
  assert.deepEqual([stopped?.event, stopped?.claimed, stopped?.settled], ["worker.stopped", 3, 3]);
});

test("a job that outlasts its lease is still its worker's", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const long = jf.job(unique("long"), inline, async (ctx) => {
    await gate;
    return ctx.attempt as never;
  });
  await withWorker(jf, { queues, leaseS: 2, heartbeatS: 0.5 }, async () => {
    await until(() => isRegistered(jf));
    const handle = await long.enqueue({});
    const text = `select from jobforge.all_jobs as j
                    join jobforge.workers as w on w.id = j.worker_id and w.memory_bytes > 0
                                              and w.clock_skew_s is not null
                   where j.id = $1 and j.heartbeat_at > j.started_at + interval '1.2 seconds'`;
    await until(() =>
      withClient(async (client) => (await client.query(text, [handle.id])).rowCount === 1),
    );
    release();
    assert.equal(await handle.result({ timeout: 60 }), 1);
  });
});

test("a worker is drained remotely", async () => {
  const jf = newApp();
  const { queues, inline } = inlineQueue();
  jf.job(unique("idle"), inline, async () => undefined);
  const worker = new Worker(jf, { queues });
  const running = worker.run();
  await until(() => worker.isRunning);
  await withClient((client) => client.query("select jobforge.drain_worker($1)", [worker.workerId]));
  await running;
  await jf.close();
});

test("a worker needs a module for jobs that run in processes of their own", async () => {
  const jf = newApp();
  jf.job(unique("isolated"), {}, () => undefined);
  assert.throws(() => new Worker(jf), errors.ConfigError);
  await jf.close();
});

test("settings with which no claim would be answered are refused", async () => {
  const jf = newApp();
  jf.job(unique("noop"), { isolation: "inline" }, () => undefined);
  const crowded = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`q${n}`, 1]));
  assert.throws(() => new Worker(jf, { queues: crowded }), errors.ConfigError);
  assert.throws(() => new Worker(jf, { leaseS: 7200 }), errors.ConfigError);
  await jf.close();
});

async function isRegistered(jf: JobForge): Promise<boolean> {
  const [key] = jf.definitions.keys();
  const text = "select from jobforge.definitions where key = $1";
  return await withClient(async (client) => (await client.query(text, [key])).rowCount === 1);
}

async function retryWhileUnavailable<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof errors.Unavailable) return await retryWhileUnavailable(ask);
    throw error;
  }
}
