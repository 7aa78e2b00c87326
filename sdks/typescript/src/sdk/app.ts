/**
 * The app, `new JobForge()`: its definitions, and its connection to the engine. It reads no
 * settings and opens no connection before first use.
 */

import type pg from "pg";
import { z } from "zod";
import * as calls from "../calls/index.ts";
import { loadConfig } from "../config.ts";
import type { Database, DatabaseOptions } from "../db/database.ts";
import { Conflict } from "../errors.ts";
import type { Json, JsonObject } from "../types/jobs.ts";
import { AMBIENT_TENANT } from "./call-context.ts";
import { type AnyDefinition, Definition, type Handler, type Runnable } from "./definition.ts";
import { type JobOptions, readSettings } from "./definition-settings.ts";
import { EngineClient } from "./engine-client.ts";
import type { Using } from "./enqueue-options.ts";
import { Handle } from "./handle.ts";
import { HooksDefinition } from "./hook-job.ts";
import { type EndHook, type FailHook, Hooks, type StartHook, type SuccessHook } from "./hooks.ts";

/** The options of `new JobForge(…)`. */
export interface AppOptions extends DatabaseOptions {
  /** UUID or slug of the default tenant. */
  readonly tenant?: string;
}

const NOTHING = z.object({});
// Shared by all copies of this package: a worker and the app that it loads may each have their own.
const BRAND = Symbol.for("jobforge.app");

/** An app: its job definitions, and the connections over which it enqueues jobs. */
export class JobForge {
  /** Reads, cancels and retries jobs. */
  readonly client: EngineClient;
  readonly [BRAND] = true;
  readonly #defined = new Map<string, AnyDefinition>();
  readonly #hooks = new Hooks();

  /** Create an app. The `JOBFORGE_…` variables provide omitted options. */
  constructor(databaseUrl?: string, options: AppOptions = {}) {
    this.client = new EngineClient(() => {
      const config = loadConfig();
      return {
        url: databaseUrl ?? config.databaseUrl,
        tenant: options.tenant ?? config.tenant,
        size: options.size,
        behindPooler: options.behindPooler ?? config.behindPooler,
        listenUrl: options.listenUrl ?? config.listenUrl,
      };
    });
  }

  /** Declare a job definition with this handler. */
  job<P extends z.ZodObject = typeof NOTHING, R = Json | undefined>(
    key: string,
    options: JobOptions<P, R>,
    handler: Handler<z.output<P>, R>,
  ): Definition<P, R> {
    const { params = NOTHING as unknown as P, result, ...given } = options;
    const settings = readSettings(key, given);
    if (this.#defined.has(key)) throw new Conflict(`Definition '${key}' already exists`);
    const definition = new Definition<P, R>(
      settings,
      { params, result },
      handler,
      this.client,
      this.#hooks,
    );
    this.#defined.set(key, definition);
    return definition;
  }

  /** The definitions by key, including those that run hooks. */
  get definitions(): ReadonlyMap<string, Runnable> {
    const all = new Map<string, Runnable>(this.#defined);
    for (const definition of this.#defined.values()) {
      if (!definition.hasFollowUpHooks) continue;
      const hooks = new HooksDefinition(definition, this.#hooks);
      all.set(hooks.settings.key, hooks);
    }
    return all;
  }

  /**
   * Run `within` with this tenant as the default tenant: jobs that it enqueues belong to this
   * tenant unless they name another.
   */
  tenant<T>(tenant: string, within: () => T): T {
    return AMBIENT_TENANT.run(tenant, within);
  }

  /**
   * Run `work` in a transaction of this tenant on a connection of the app's pool. Pass `tx` as
   * `conn` to enqueue in the same transaction.
   */
  async transaction<T>(tenant: string, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
    const tenantId = await this.client.tenantId(tenant);
    return await this.client
      .database()
      .transaction(tenantId, (tx) => AMBIENT_TENANT.run(tenantId, () => work(tx)));
  }

  /**
   * Emit an event for triggers and waiting jobs, and return its ID. With `conn`, the event is part
   * of that transaction. With `key`, each trigger creates one job for all events with this name and
   * key.
   */
  async emit(
    name: string,
    data: JsonObject = {},
    options: Pick<Using, "tenant" | "conn" | "key" | "correlationId"> = {},
  ): Promise<string> {
    return await this.client.emit(name, data, options);
  }

  /**
   * Return a handle for an existing job. Its result is the stored JSON. The job is first read when
   * you use the handle: then a job that does not exist throws NotFound.
   */
  async jobOf(
    jobId: string,
    options: { readonly tenant?: string | undefined } = {},
  ): Promise<Handle<Json>> {
    const tenantId = await this.client.tenantId(options.tenant);
    return new Handle<Json>(this.client, undefined, tenantId, {
      job_id: jobId,
      status: "existing",
    });
  }

  /** Register a hook that runs in each attempt of any job, before the handler. */
  onStart(hook: StartHook): this {
    this.#hooks.start.push(hook);
    return this;
  }

  /** Register a hook that runs after any job has succeeded. */
  onSuccess(hook: SuccessHook<Json>): this {
    this.#hooks.success.push(hook as SuccessHook<never>);
    return this;
  }

  /** Register a hook that runs after any job becomes dead. */
  onFail(hook: FailHook): this {
    this.#hooks.fail.push(hook);
    return this;
  }

  /** Register a hook that runs after any job has finished, in any state. */
  onEnd(hook: EndHook): this {
    this.#hooks.end.push(hook);
    return this;
  }

  buildRegistrations(): calls.Call<void>[] {
    return [...this.definitions.values()].map((definition) =>
      calls.putDefinition(
        definition.settings.key,
        definition.settings.version,
        definition.buildRegistration(),
      ),
    );
  }

  /** Register the definitions in the database. A worker does so when it starts. */
  async register(): Promise<void> {
    for (const call of this.buildRegistrations()) await this.client.database().run(call);
  }

  /** Return the app's own pool. */
  database(): Database {
    return this.client.database();
  }

  /** Close the connections. */
  async close(): Promise<void> {
    await this.client.close();
  }
}

/** Return the first app among a module's exports, or null. */
export function findApp(exports: Readonly<Record<string, unknown>>): JobForge | null {
  const isApp = (each: unknown) => typeof each === "object" && each !== null && BRAND in each;
  return (Object.values(exports).find(isApp) as JobForge | undefined) ?? null;
}
