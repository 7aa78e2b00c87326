/**
 * Definitions: a handler with its settings, its hooks, and the upgrades of payloads from older
 * versions. Workers run a definition; applications enqueue jobs of it.
 */

import type { z } from "zod";
import { Invalid, InvalidPayload, NotCommitted } from "../errors.ts";
import type { ClaimedJob, Json, JsonObject } from "../types/jobs.ts";
import type { Context } from "./context.ts";
import { buildRegistration, type DefinitionSettings } from "./definition-settings.ts";
import type { EngineClient } from "./engine-client.ts";
import { Enqueuer } from "./enqueue.ts";
import { NO_OPTIONS } from "./enqueue-options.ts";
import {
  type EndHook,
  type FailHook,
  Hooks,
  runStartHooks,
  type StartHook,
  type SuccessHook,
} from "./hooks.ts";
import { buildSchema, dumpResult, isArtifactReference, parseArguments } from "./parameters.ts";

/** The function that runs a job. `A` is the type of the arguments, `R` of the result. */
export type Handler<A, R> = (ctx: Context, args: A) => R | Promise<R>;
/** A function that converts a payload to the next version. */
export type Upgrade = (payload: JsonObject) => JsonObject;

/** The members of a definition that a worker uses. */
export interface Runnable {
  readonly settings: DefinitionSettings;
  /** The versions whose jobs it can run, its own version first. */
  readonly servedVersions: readonly number[];
  buildRegistration(): JsonObject;
  /** Run the handler. An error that it throws decides the outcome of the attempt. */
  invoke(ctx: Context, job: ClaimedJob): unknown;
  /**
   * Return the result as JSON. Throws Invalid if it cannot be stored, and NotCommitted if the
   * handler completed the job itself.
   */
  dump(ctx: Context, result: unknown): Json | undefined;
}

/** A job definition. `P` is the schema of the parameters, and `R` is the type of the result. */
export class Definition<P extends z.ZodObject, R>
  extends Enqueuer<z.input<P>, R>
  implements Runnable
{
  readonly settings: DefinitionSettings;
  readonly params: P;
  readonly result: z.ZodType<R> | undefined;
  readonly handler: Handler<z.output<P>, R>;
  readonly hooks = new Hooks();
  readonly #appHooks: Hooks;
  readonly #schema: JsonObject;
  readonly #upgrades = new Map<number, Upgrade>();

  constructor(
    settings: DefinitionSettings,
    shapes: { readonly params: P; readonly result: z.ZodType<R> | undefined },
    handler: Handler<z.output<P>, R>,
    client: EngineClient,
    appHooks: Hooks,
  ) {
    const { key, version } = settings;
    super({ key, version, params: shapes.params, result: shapes.result, client }, NO_OPTIONS);
    this.settings = settings;
    this.params = shapes.params;
    this.result = shapes.result;
    this.handler = handler;
    this.#appHooks = appHooks;
    this.#schema = buildSchema(shapes.params, key);
  }

  get servedVersions(): readonly number[] {
    const { key, version } = this.settings;
    const oldest = Math.min(version, ...this.#upgrades.keys());
    const versions = Array.from({ length: version - oldest + 1 }, (_, step) => version - step);
    const missing = versions.find((each) => each < version && !this.#upgrades.has(each));
    if (missing !== undefined) {
      throw new Invalid(`${key} upgrades from version ${oldest}, but not from ${missing}`);
    }
    return versions;
  }

  /** Whether a job of `<key>:hooks` follows each finished job. */
  get hasFollowUpHooks(): boolean {
    return this.hooks.hasFollowUpHooks || this.#appHooks.hasFollowUpHooks;
  }

  buildRegistration(): JsonObject {
    return buildRegistration(this.settings, this.#schema, this.hasFollowUpHooks);
  }

  /** Register a function that converts a payload of this version to the next version. */
  upgrade(fromVersion: number, upgrade: Upgrade): this {
    if (!(fromVersion >= 1 && fromVersion < this.settings.version)) {
      throw new Invalid(`${this.settings.key} cannot upgrade from version ${fromVersion}`);
    }
    this.#upgrades.set(fromVersion, upgrade);
    return this;
  }

  /** Register a hook that runs in each attempt, before the handler. */
  onStart(hook: StartHook): this {
    this.hooks.start.push(hook);
    return this;
  }

  /** Register a hook that runs after the job has succeeded. */
  onSuccess(hook: SuccessHook<R>): this {
    this.hooks.success.push(hook as SuccessHook<never>);
    return this;
  }

  /** Register a hook that runs after the job becomes dead. */
  onFail(hook: FailHook): this {
    this.hooks.fail.push(hook);
    return this;
  }

  /** Register a hook that runs after the job has finished, in any state. */
  onEnd(hook: EndHook): this {
    this.hooks.end.push(hook);
    return this;
  }

  invoke(ctx: Context, job: ClaimedJob): unknown {
    const args = this.#readArguments(job);
    const [hooks, appHooks] = [this.hooks.start, this.#appHooks.start];
    if (hooks.length + appHooks.length === 0) return this.handler(ctx, args);
    return runStartHooks([...hooks, ...appHooks], ctx).then(() => this.handler(ctx, args));
  }

  dump(ctx: Context, result: unknown): Json | undefined {
    // The worker still holds the lease here, so the transaction that completed the job was not
    // committed.
    if (ctx.wasCompleted) throw new NotCommitted();
    return dumpResult(this.result, result);
  }

  #readArguments(job: ClaimedJob): z.output<P> {
    const payload = JSON.parse(job.payload_json) as JsonObject;
    if (isArtifactReference(payload)) {
      throw new InvalidPayload(
        "The payload is in the artifact store, which only Python workers can read; " +
          "run this definition in Python, or enqueue a reference to the data",
      );
    }
    if (job.version === this.settings.version) return parseArguments(this.params, payload);
    return parseArguments(this.params, this.#upgradePayload(job.version, payload));
  }

  #upgradePayload(version: number, payload: JsonObject): JsonObject {
    let upgraded = payload;
    for (let step = version; step < this.settings.version; step++) {
      const upgrade = this.#upgrades.get(step);
      if (upgrade === undefined) {
        throw new InvalidPayload(`${this.settings.key} has no upgrade from version ${step}`);
      }
      try {
        upgraded = upgrade(upgraded);
      } catch (error) {
        throw new InvalidPayload(`The upgrade from version ${step} failed: ${error}`, {
          cause: error,
        });
      }
    }
    if (version > this.settings.version) {
      throw new InvalidPayload(`${this.settings.key} does not support version ${version}`);
    }
    return upgraded;
  }
}

/** A definition with any parameters and any result. */
export type AnyDefinition = Runnable & {
  readonly hooks: Hooks;
  readonly hasFollowUpHooks: boolean;
};
