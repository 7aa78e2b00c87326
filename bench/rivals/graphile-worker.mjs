// graphile-worker: 24 jobs at once from a local queue of 2,000, completions batched.

import { load, main, recordStart } from "./side_program.mjs";

const { Logger, makeWorkerUtils, run } = load("graphile-worker");

const BATCH = 5_000;
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(message);
});
const preset = (connectionString) => ({
  worker: {
    connectionString,
    maxPoolSize: 26,
    concurrentJobs: 24,
    localQueue: { size: 2_000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger,
  },
});

async function install(url) {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.release();
}

async function client(url) {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.withPgClient((connection) => connection.query("select 1"));
  return {
    enqueue: (n) => utils.addJob("noop", { n }),
    enqueueMany: async (numbers) => {
      for (let first = 0; first < numbers.length; first += BATCH) {
        const some = numbers.slice(first, first + BATCH);
        await utils.addJobs(some.map((n) => ({ identifier: "noop", payload: { n } })));
      }
    },
    close: () => utils.release(),
  };
}

async function work(url) {
  const runner = await run({ preset: preset(url), taskList: { noop: async ({ n }) => recordStart(n) } });
  await runner.promise;
}

await main({ install, client, work });
