/**
 * Hooks of an app: before each attempt, and once after a job has finished. `onStart` hooks run in
 * the attempt itself; hook-job.ts runs all others.
 */

import { emit } from "../observability/logs.ts";
import type { FinalState, JsonObject } from "../types/jobs.ts";
import type { Context } from "./context.ts";

export type Awaitable = void | Promise<void>;
/** A hook that runs in each attempt, before the handler. */
export type StartHook = (ctx: Context) => Awaitable;
/** A hook that runs after a job has succeeded. */
export type SuccessHook<R> = (ctx: Context, result: R) => Awaitable;
/** A hook that runs after a job is dead. */
export type FailHook = (ctx: Context, error: JsonObject) => Awaitable;
/** A hook that runs after a job has finished, in any state. */
export type EndHook = (ctx: Context, state: FinalState) => Awaitable;

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

/** Run the hook. Return its failure, which is logged. */
export async function runHook(hook: () => Awaitable): Promise<{ readonly error: unknown } | null> {
  try {
    await hook();
    return null;
  } catch (error) {
    emit("hook.failed", { error: String(error) }, "error");
    return { error };
  }
}
