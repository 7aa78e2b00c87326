/** Isolated jobs: their environment, their failures, and that no process is left behind. */

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { selectVariables } from "../src/process/environment.ts";
import { runWorkerDuringTests, until, urlOf } from "./setup.ts";

process.env.JOBFORGE_DATABASE_URL = urlOf();
process.env.JOBFORGE_SECRET_ISOLATED = "open sesame";
process.env.DATABASE_URL = urlOf(); // a variable of the app itself
const { ask, breed, child, fail, jf, look, parent, pidIn, QUEUE, speak } = await import(
  "./isolated_app.ts"
);
const module = new URL("./isolated_app.ts", import.meta.url).href;

await jf.register();
runWorkerDuringTests(jf, { module, queues: { [QUEUE]: 4 }, warm: 1 });

test("a job has a process, a folder and an environment of its own, and no way to the database", async () => {
  const handle = await look.enqueue({});
  const seen = await handle.result({ timeout: 30 });
  assert.notEqual(seen.pid, process.pid);
  assert.deepEqual(
    { ...seen, pid: 0 },
    { pid: 0, attempt: 1, home: true, names: [], secret: "open sesame" },
  );
  const { attempts } = await jf.client.getHistory(handle.id);
  assert.equal(attempts[0]?.pid, seen.pid);
  assert.equal(attempts[0]?.stdout_tail, "hello from inside, password=[redacted]\n");
  assert.ok(Number(attempts[0]?.peak_memory_bytes) > 1024 ** 2);
});

test("a pattern selects variables for jobs, but no credentials", () => {
  const names = ["SHOP_URL", "SHOP_KEY", "HOME", "PGPASSWORD", "PGHOST", "JOBFORGE_KEY"];
  assert.deepEqual(selectVariables([], names), []);
  assert.deepEqual(selectVariables(["SHOP_*", "PGHOST"], names), ["SHOP_URL", "SHOP_KEY"]);
  assert.deepEqual(selectVariables(["*"], names), ["SHOP_URL", "SHOP_KEY", "HOME"]);
});

test("a job enqueues others through its worker, for its own tenant", async () => {
  const handle = await parent.enqueue({});
  const { id, tenant } = await handle.result({ timeout: 30 });
  assert.equal(tenant, handle.tenantId);
  const [found] = await jf.client.listJobs({ definition: child.settings.key, key: handle.id });
  assert.equal(found?.id, id);
});

test("a job that cannot emit an event gets an error that says who can", async () => {
  const { error } = await (await speak.enqueue({})).wait({ timeout: 30 });
  assert.equal(error?.type, "Conflict");
  assert.match(String(error?.message), /conn.*inline/);
});

test("a process that fails, crashes or hoards memory gets the right outcome", async () => {
  const handles = await fail.enqueueMany(
    ["dead", "exit", "abort", "memory", "deep"].map((how) => ({ how })),
  );
  const jobs = await Promise.all(handles.map((handle) => handle.wait({ timeout: 60 })));
  const errors = jobs.map(({ error }) => [error?.type, error?.message]);
  assert.deepEqual(errors, [
    ["Dead", "no use"],
    ["Crashed", "Exited with code 3 and without an outcome"],
    ["Crashed", "Killed by SIGABRT"],
    ["Crashed", "Exceeded its memory limit"],
    ["ResultTooDeep", "The result is nested more than 64 levels deep"],
  ]);
  const [, exit, abort] = await Promise.all(handles.map(({ id }) => jf.client.getHistory(id)));
  assert.deepEqual([exit?.attempts[0]?.exit_code, abort?.attempts[0]?.exit_code], [3, -6]);
});

test("a canceled job is asked; one that computes is killed after its grace", async () => {
  const handles = await fail.enqueueMany([{ how: "wait" }, { how: "busy" }]);
  for (const handle of handles) {
    await until(async () => (await handle.job()).state === "running");
    await jf.client.cancelJob(handle.id);
  }
  const jobs = await Promise.all(handles.map((handle) => handle.wait({ timeout: 30 })));
  assert.deepEqual(
    jobs.map((job) => job.state),
    ["canceled", "canceled"],
  );
});

test("a job that ends when it is asked to has timed out, or was canceled", async () => {
  const canceled = await fail.enqueue({ how: "wait" });
  await until(async () => (await canceled.job()).state === "running");
  await jf.client.cancelJob(canceled.id);
  const late = await fail.using({ timeout: 1 }).enqueue({ how: "wait" });
  const outcomes = [canceled, late].map(async (handle) => {
    await handle.wait({ timeout: 30 });
    return (await jf.client.getHistory(handle.id)).attempts[0]?.outcome;
  });
  assert.deepEqual(await Promise.all(outcomes), ["canceled", "timed_out"]);
});

test("a killed job leaves no process behind, also none that has left its group", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "jobforge-test-")), "pid");
  const handle = await breed.enqueue({ file });
  await until(() => pidIn(file) > 0);
  const pid = pidIn(file);
  assert.ok(isAlive(pid));
  await jf.client.cancelJob(handle.id);
  await handle.wait({ timeout: 30 });
  await until(() => !isAlive(pid));
});

test("a job may ask for much at once, and a note that is too long is refused", async () => {
  const handle = await ask.enqueue({});
  assert.deepEqual(await handle.result({ timeout: 30 }), [
    300,
    ["open sesame"],
    "The message of 2097216 bytes exceeds the limit of 1048576 bytes",
  ]);
});

function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
