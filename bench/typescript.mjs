// Program of the TypeScript SDK: the app, its worker, and the commands that enqueue.

import { z } from "../sdks/typescript/node_modules/zod/index.js";
import { JobForge } from "../sdks/typescript/dist/index.js";
import { configureLogs, Worker } from "../sdks/typescript/dist/worker/index.js";
import { main, recordStart } from "./rivals/side_program.mjs";

const TENANT = "00000000-0000-0000-0000-000000000001";
const BATCH = 5_000;
const SLOTS = 2_000;

function open(url) {
  const jf = new JobForge(url, { tenant: TENANT });
  const params = z.object({ n: z.number() });
  const noop = jf.job("noop", { isolation: "inline", params }, async ({ n }) => recordStart(n));
  return { jf, noop };
}

async function install(url) {
  const { jf } = open(url);
  await jf.register();
  await jf.close();
}

async function client(url) {
  const { jf, noop } = open(url);
  return {
    enqueue: (n) => noop.enqueue({ n }),
    enqueueMany: async (numbers) => {
      for (let first = 0; first < numbers.length; first += BATCH) {
        await noop.enqueueMany(numbers.slice(first, first + BATCH).map((n) => ({ n })));
      }
    },
    close: () => jf.close(),
  };
}

async function work(url) {
  configureLogs({ level: "warning" });
  const { jf } = open(url);
  await new Worker(jf, { queues: { default: SLOTS } }).run();
}

await main({ install, client, work });
