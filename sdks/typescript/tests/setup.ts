/**
 * Shared setup of the tests: a migrated database, whose URLs by login come from JOBFORGE_TEST_URLS.
 */

import { randomUUID } from "node:crypto";
import { after, before } from "node:test";
import pg from "pg";
import { JobForge } from "../src/index.ts";
import { Worker, type WorkerOptions } from "../src/worker/index.ts";

type Login = "superuser" | "client" | "service" | "worker";

const given = process.env.JOBFORGE_TEST_URLS;
if (given === undefined) {
  throw new Error("set JOBFORGE_TEST_URLS: tests/contract/test_typescript.py does, and runs these");
}
const urls = JSON.parse(given) as Record<Login, string>;

export function urlOf(login: Login = "superuser"): string {
  return urls[login];
}

/** For libraries that do not support URLs with a socket. */
export function addressOf(login: Login): Record<"host" | "database" | "username", string> & {
  readonly port: number;
} {
  const url = new URL(urlOf(login).replace("@/", "@localhost/"));
  return {
    host: url.searchParams.get("host") ?? url.hostname,
    port: Number(url.searchParams.get("port") ?? url.port),
    database: url.pathname.slice(1),
    username: url.username,
  };
}

/** Return an app with a separate tenant, so that tests do not see each other's jobs. */
export function newApp(login: Login = "superuser", tenant: string = randomUUID()): JobForge {
  return new JobForge(urlOf(login), { tenant });
}

/**
 * Return a name that no other test uses, because queues and definitions are shared by all tenants.
 */
export function unique(name: string): string {
  return `${name}_${randomUUID().slice(0, 8)}`;
}

export async function withClient<T>(
  work: (client: pg.Client) => Promise<T>,
  login: Login = "superuser",
): Promise<T> {
  const client = new pg.Client({ connectionString: urlOf(login) });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Run a worker of the app during `work`, then drain it. */
export async function withWorker<T>(
  app: JobForge,
  options: WorkerOptions,
  work: (worker: Worker) => Promise<T>,
): Promise<T> {
  const worker = new Worker(app, { pollS: 0.2, ...options });
  const running = worker.run();
  try {
    return await Promise.race([
      work(worker),
      running.then(() => {
        throw new Error("the worker has ended");
      }),
    ]);
  } finally {
    worker.stop();
    await running;
    await app.close();
  }
}

/** Run a worker of the app during all tests of the file. */
export function runWorkerDuringTests(app: JobForge, options: WorkerOptions): void {
  const worker = new Worker(app, options);
  let running = Promise.resolve();
  before(() => {
    running = worker.run();
  });
  after(async () => {
    worker.stop();
    worker.stop();
    await running;
    await app.close();
  });
}

/** Resolves as soon as the condition is true; rejects after the time is up. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  withinS = 30,
): Promise<void> {
  const deadline = performance.now() + withinS * 1000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error("the condition did not come true");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
