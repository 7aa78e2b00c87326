/**
 * Hooks of an app: before each attempt, and once after a job has finished. `onStart` hooks run in
 * the attempt itself. All others run in a separate job, which the engine enqueues when the job
 * finishes for any reason, and which is retried like any job.
 */

import { z } from "zod";
import { emit } from "../observability/logs.ts";
import { FINAL_STATES, type FinalState, type Json, type JsonObject } from "../types/jobs.ts";
import type { Context } from "./context.ts";

type Awaitable = void | Promise<void>;
/** A hook that runs in each attempt, before the handler. */
export type StartHook = (ctx: Context) => Awaitable;
/** A hook that runs after a job has succeeded. */
export type SuccessHook<R> = (ctx: Context, result: R) => Awaitable;
/** A hook that runs after a job is dead. */
export type FailHook = (ctx: Context, error: JsonObject) => Awaitable;
/** A hook that runs after a job has finished, in any state. */
export type EndHook = (ctx: Context, state: FinalState) => Awaitable;

/** The payload of the job that runs hooks: the finished job as the engine describes it. */
export const HOOK_PAYLOAD = z.object({
  job_id: z.string(),
  definition: z.string(),
  version: z.number(),
  state: z.enum(FINAL_STATES),
  attempt: z.number(),
  payload: z.record(z.string(), z.json()).nullish(),
  error: z.record(z.string(), z.json()).nullish(),
  result: z.json().nullish(),
  reason: z.string().nullish(),
});
export type HookPayload = z.output<typeof HOOK_PAYLOAD>;

/** The hooks of one definition, or of the whole app. */
export class Hooks {
  readonly start: StartHook[] = [];
  readonly success: SuccessHook<never>[] = [];
  readonly fail: FailHook[] = [];
  readonly end: EndHook[] = [];

  /** Whether some hooks need a separate job after a job has finished. */
  get hasFollowUpHooks(): boolean {
    return this.success.length + this.fail.length + this.end.length > 0;
  }
}

/** Run the hooks. A hook's failure is logged and does not fail the attempt. */
export async function runStartHooks(hooks: readonly StartHook[], ctx: Context): Promise<void> {
  for (const hook of hooks) await runHook(() => hook(ctx));
}

/** Run all hooks, even if one fails; then throw the first failure. */
export async function runHooks(
  groups: readonly Hooks[],
  ctx: Context,
  payload: HookPayload,
): Promise<void> {
  const failures: unknown[] = [];
  for (const hook of groups.flatMap((group) => selectHooks(group, ctx, payload))) {
    const failure = await runHook(hook);
    if (failure !== null) failures.push(failure.error);
  }
  if (failures.length > 0) throw failures[0];
}

function selectHooks(hooks: Hooks, ctx: Context, payload: HookPayload): (() => Awaitable)[] {
  const { state } = payload;
  const succeeded = state === "succeeded" ? hooks.success : [];
  const failed = state === "dead" ? hooks.fail : [];
  return [
    ...succeeded.map((hook) => () => hook(ctx, (payload.result ?? null) as Json as never)),
    ...failed.map((hook) => () => hook(ctx, (payload.error ?? {}) as JsonObject)),
    ...hooks.end.map((hook) => () => hook(ctx, state)),
  ];
}

async function runHook(hook: () => Awaitable): Promise<{ readonly error: unknown } | null> {
  try {
    await hook();
    return null;
  } catch (error) {
    emit("hook.failed", { error: String(error) }, "error");
    return { error };
  }
}
