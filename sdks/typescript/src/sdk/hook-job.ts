/**
 * The follow-up job that runs the hooks of a finished job. The engine enqueues it when a job
 * finishes for any reason. It is retried like any job, so when one hook fails, all hooks of the job
 * run again.
 */

import { z } from "zod";
import { type ClaimedJob, FINAL_STATES, type JsonObject } from "../types/jobs.ts";
import type { Context } from "./context.ts";
import type { AnyDefinition, Runnable } from "./definition.ts";
import { buildRegistration, type DefinitionSettings, readSettings } from "./definition-settings.ts";
import { type Awaitable, type Hooks, runHook } from "./hooks.ts";
import { buildSchema, parseArguments } from "./parameters.ts";

/** The payload of the job that runs hooks: the finished job as the engine describes it. */
const HOOK_PAYLOAD = z.object({
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
type HookPayload = z.output<typeof HOOK_PAYLOAD>;

/** The definition whose jobs run the hooks of another definition's finished jobs. */
export class HooksDefinition implements Runnable {
  readonly settings: DefinitionSettings;
  readonly #of: AnyDefinition;
  readonly #groups: readonly Hooks[];

  constructor(of: AnyDefinition, appHooks: Hooks) {
    this.#of = of;
    this.#groups = [of.hooks, appHooks];
    this.settings = readSettings(`${of.settings.key}:hooks`, {
      version: of.settings.version,
      queue: of.settings.queue,
      isolation: of.settings.isolation,
      description: `The hooks of ${of.settings.key}.`,
    });
  }

  get servedVersions(): readonly number[] {
    return this.#of.servedVersions;
  }

  buildRegistration(): JsonObject {
    return buildRegistration(this.settings, buildSchema(HOOK_PAYLOAD, this.settings.key), false);
  }

  async invoke(ctx: Context, job: ClaimedJob): Promise<void> {
    const payload = parseArguments(HOOK_PAYLOAD, JSON.parse(job.payload_json));
    const jobContext = ctx.withJobFields({
      job_id: payload.job_id,
      definition: payload.definition,
      version: payload.version,
      attempt: payload.attempt,
      payload_json: JSON.stringify(payload.payload ?? {}),
    });
    await runHooks(this.#groups, jobContext, payload);
  }

  dump(): undefined {
    return undefined;
  }
}

/** Run all hooks, even if one fails; then throw the first failure. */
async function runHooks(
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
    ...succeeded.map((hook) => () => hook(ctx, (payload.result ?? null) as never)),
    ...failed.map((hook) => () => hook(ctx, payload.error ?? {})),
    ...hooks.end.map((hook) => () => hook(ctx, state)),
  ];
}
