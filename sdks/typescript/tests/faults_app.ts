/**
 * The app of the fault tests, which kill its workers; the TypeScript version of
 * tests/faults/app.py. It writes a mark before and after the work and every few milliseconds during
 * it.
 */

import { appendFileSync, existsSync } from "node:fs";
import { uptime } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { type Context, JobForge } from "../src/index.ts";

export const jf = new JobForge();

const TICK_MS = 20;
// Kills use up attempts, and no job must die because of them.
const AGAIN = { maxAttempts: 1000, base: 0.05, cap: 0.2 };
const SETTINGS = { queue: "faults", timeout: 600, retry: AGAIN } as const;
const WORK = z.object({ marks: z.string(), seconds: z.number(), failures: z.number().default(0) });
const HOLD = z.object({ marks: z.string(), gate: z.string() });

// The difference to the time since boot: how long the machine was suspended, if Node's clock
// stopped then.
const apart = uptime() - Number(process.hrtime.bigint()) / 1e9;
const slept = Math.abs(apart) < 0.1 ? 0 : apart;

function mark(ctx: Context, marks: string, what: string): void {
  const [job, lease] = ctx.fence.split(".");
  const at = Number(process.hrtime.bigint()) / 1e9 + slept;
  appendFileSync(marks, `${job} ${lease} ${what} ${process.pid} ${at.toFixed(6)}\n`);
}

async function work(
  ctx: Context,
  { marks, seconds, failures }: z.output<typeof WORK>,
): Promise<number> {
  mark(ctx, marks, "enter");
  const until = performance.now() + seconds * 1000;
  while (performance.now() < until) {
    await sleep(Math.min(TICK_MS, seconds * 1000), undefined, { signal: ctx.signal });
    mark(ctx, marks, "tick");
  }
  if (ctx.attempt <= failures) throw new Error("as it was told to");
  mark(ctx, marks, "exit");
  return ctx.attempt;
}

jf.job("work", { ...SETTINGS, params: WORK }, work);
jf.job("light", { ...SETTINGS, params: WORK, isolation: "inline" }, work);
jf.job("hold", { ...SETTINGS, params: HOLD }, async (ctx, { marks, gate }) => {
  mark(ctx, marks, "enter");
  while (!existsSync(gate)) {
    await sleep(TICK_MS);
    mark(ctx, marks, "tick");
  }
  mark(ctx, marks, "exit");
  return ctx.attempt;
});
