// pg-boss: batches of 2,000, two fetchers, no pause while batches are full, woken by NOTIFY.

import { load, main, mark } from "./program.mjs";

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
    enqueueMany: async (count) => {
      for (let first = 0; first < count; first += BATCH) {
        const size = Math.min(BATCH, count - first);
        const jobs = Array.from({ length: size }, (_, i) => ({ data: { n: first + i } }));
        await boss.insert(QUEUE, jobs);
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
      for (const _ of jobs) mark();
    },
  );
}

await main({ install, client, work });
