// pg-boss: batches of 2,000, two fetchers, no pause while batches are full, NOTIFY on new jobs.

import { load, main, recordStart } from "./side_program.mjs";

const { PgBoss } = load("pg-boss");

const BATCH = 5_000;
const QUEUE = "noop";

async function open(url, options = {}) {
  const boss = new PgBoss({ connectionString: url, schedule: false, ...options });
  boss.on("error", console.error);
  await boss.start();
  return boss;
}

async function install(url) {
  const boss = await open(url);
  await boss.createQueue(QUEUE, { notify: true });
  await boss.stop({ graceful: false });
}

async function client(url) {
  const boss = await open(url, { supervise: false });
  return {
    enqueue: (n) => boss.send(QUEUE, { n }),
    enqueueMany: async (numbers) => {
      for (let first = 0; first < numbers.length; first += BATCH) {
        const some = numbers.slice(first, first + BATCH);
        await boss.insert(QUEUE, some.map((n) => ({ data: { n } })));
      }
    },
    close: () => boss.stop({ graceful: false }),
  };
}

async function work(url) {
  const boss = await open(url, { useListenNotify: true });
  await boss.work(
    QUEUE,
    { batchSize: 2_000, localConcurrency: 2, burstWhenBatchFull: true },
    async (jobs) => {
      for (const job of jobs) recordStart(job.data.n);
    },
  );
}

await main({ install, client, work });
