/**
 * Sends an app's jobs and events to the engine, and reads jobs. It uses the app's own pool, a
 * connection of the caller, or, in a job's process without a database, the job's worker.
 */

import * as calls from "../calls/index.ts";
import { Database, type DatabaseOptions } from "../db/database.ts";
import { type Queryable, runOn } from "../db/queryable.ts";
import {
  ConfigError,
  Conflict,
  Denied,
  JobForgeError,
  NotFound,
  TenantRequired,
  UnknownDefinition,
} from "../errors.ts";
import type {
  Enqueued,
  Explanation,
  History,
  Job,
  JobEvent,
  JobFilter,
  JobListing,
  JobRequest,
  JsonObject,
  Page,
  State,
} from "../types/jobs.ts";
import {
  AMBIENT_TENANT,
  CURRENT_JOB,
  chooseTenant,
  inheritFields,
  isUuid,
  TenantIdCache,
} from "./call-context.ts";

const MAX_JOBS = 5_000; // per statement

export interface EnqueueResult {
  readonly tenantId: string;
  readonly jobs: readonly Enqueued[];
}

export interface ClientConfig extends DatabaseOptions {
  readonly url: string | undefined;
  readonly tenant: string | undefined;
}

/** Reads, cancels and retries the jobs of an app. Opens no connection before first use. */
export class EngineClient {
  readonly #readConfig: () => ClientConfig;
  readonly #tenantIds = new TenantIdCache();
  #config: ClientConfig | null = null;
  #database: Database | null = null;

  constructor(readConfig: () => ClientConfig) {
    this.#readConfig = readConfig;
  }

  /** Enqueue all jobs or none. */
  async enqueue(
    requests: readonly JobRequest[],
    tenant: string | undefined,
    conn: Queryable | undefined,
  ): Promise<EnqueueResult> {
    const current = CURRENT_JOB.getStore();
    if (conn === undefined && current?.channel) {
      return await enqueueOverChannel(current.channel, current.tenantId, requests, tenant);
    }
    const tenantId = await this.tenantId(tenant, conn);
    const jobs = current?.origin ? inheritFields(current.origin, requests) : requests;
    try {
      return { tenantId, jobs: await this.#send(jobs, tenantId, conn) };
    } catch (error) {
      throw withHint(error, conn);
    }
  }

  /** Return the event's ID. */
  async emit(
    name: string,
    data: JsonObject,
    given: {
      readonly tenant?: string | undefined;
      readonly conn?: Queryable | undefined;
      readonly key?: string | undefined;
      readonly correlationId?: string | undefined;
    },
  ): Promise<string> {
    const { tenant, conn, key, correlationId: correlation_id } = given;
    if (conn === undefined) refuseToEmit();
    try {
      return await this.#run(calls.emitEvent(name, data, { key, correlation_id }), tenant, conn);
    } catch (error) {
      throw withHint(error, conn);
    }
  }

  /** Return a job. */
  async getJob(jobId: string, tenant?: string): Promise<Job> {
    return (await this.getHistory(jobId, tenant)).job;
  }

  /** Return a job with its attempts and its timeline. */
  async getHistory(jobId: string, tenant?: string): Promise<History> {
    return await this.#run(calls.getJob(jobId), tenant);
  }

  /** Return the jobs that match, newest first. */
  async listJobs(
    which: JobFilter = {},
    page: Page & { tenant?: string } = {},
  ): Promise<JobListing[]> {
    return await this.#run(calls.listJobs(which, page), page.tenant);
  }

  /** Cancel a job. Returns `canceled`, or `canceling` if a worker must stop the job first. */
  async cancelJob(jobId: string, given: { reason?: string; tenant?: string } = {}): Promise<State> {
    return await this.#run(calls.cancelJob(jobId, given.reason ?? null), given.tenant);
  }

  /**
   * Retry a succeeded, canceled or dead job. Returns the ID of the job that will run: the same job
   * if it was dead, and a new job otherwise.
   */
  async retryJob(
    jobId: string,
    given: { payload?: JsonObject; attempts?: number; tenant?: string } = {},
  ): Promise<string> {
    const { payload = null, attempts = null, tenant } = given;
    return await this.#run(calls.retryJob(jobId, payload, attempts), tenant);
  }

  /** Return the reasons why a job is not running, the decisive one first. */
  async explainJob(jobId: string, tenant?: string): Promise<Explanation[]> {
    return await this.#run(calls.explainJob(jobId), tenant);
  }

  /** Change the earliest start of a job that has not started; null means as soon as possible. */
  async rescheduleJob(jobId: string, at: Date | null, tenant?: string): Promise<State> {
    return await this.#run(calls.rescheduleJob(jobId, at?.toISOString() ?? null), tenant);
  }

  /** Return a job's log lines, oldest first: those later than `after`, at most `limit`. */
  async listLogs(
    jobId: string,
    given: { after?: string; limit?: number; tenant?: string } = {},
  ): Promise<JobEvent[]> {
    const { after = null, limit = 200, tenant } = given;
    return await this.#run(calls.listLogs(jobId, after, limit), tenant);
  }

  async tenantId(named: string | undefined, conn?: Queryable): Promise<string> {
    const tenant = chooseTenant(named, this.#getConfig().tenant);
    if (isUuid(tenant)) return tenant;
    const known = this.#tenantIds.get(tenant);
    if (known !== undefined) return known;
    const call = calls.findTenant(tenant);
    try {
      // A tenant read on the caller's connection is not cached: its transaction may be rolled back.
      if (conn !== undefined && this.#getConfig().url === undefined) return await runOn(conn, call);
      return this.#tenantIds.put(tenant, await this.database().run(call));
    } catch (error) {
      throw tenantLookupError(error, tenant);
    }
  }

  /** Return the app's pool. Throws ConfigError if no database is configured. */
  database(): Database {
    if (CURRENT_JOB.getStore()?.channel) {
      throw new Conflict(
        "A job's process has no database, so it cannot wait for jobs or read them",
      );
    }
    if (this.#database === null) {
      const { url, ...options } = this.#getConfig();
      if (url === undefined) {
        throw new ConfigError(
          "No database specified; use new JobForge(url), or set JOBFORGE_DATABASE_URL",
          {
            field: "database_url",
          },
        );
      }
      this.#database = new Database(url, options);
    }
    return this.#database;
  }

  async close(): Promise<void> {
    const database = this.#database;
    this.#database = null;
    await database?.close();
  }

  #getConfig(): ClientConfig {
    this.#config ??= this.#readConfig();
    return this.#config;
  }

  async #run<T>(call: calls.Call<T>, tenant: string | undefined, conn?: Queryable): Promise<T> {
    if (conn !== undefined) {
      return await runOn(conn, calls.forTenant(call, await this.tenantId(tenant, conn)));
    }
    const database = this.database();
    return await database.runFor(await this.tenantId(tenant), call);
  }

  async #send(
    requests: readonly JobRequest[],
    tenantId: string,
    conn: Queryable | undefined,
  ): Promise<readonly Enqueued[]> {
    if (requests.length === 0) return [];
    if (conn !== undefined) {
      return await enqueueInBatches(requests, (call) =>
        runOn(conn, calls.forTenant(call, tenantId)),
      );
    }
    if (requests.length <= MAX_JOBS) {
      return await this.database().runFor(tenantId, buildEnqueueCall(requests));
    }
    // Several statements need a transaction, so that all jobs are enqueued or none.
    return await this.database().transaction(tenantId, (client) =>
      enqueueInBatches(requests, (call) => runOn(client, call)),
    );
  }
}

function refuseToEmit(): void {
  if (CURRENT_JOB.getStore()?.channel) {
    throw new Conflict(
      "A job's process has no database; emit on a separate connection with { conn }, or from an" +
        ' isolation: "inline" job',
    );
  }
}

async function enqueueInBatches(
  requests: readonly JobRequest[],
  run: (call: calls.Call<Enqueued[]>) => Promise<Enqueued[]>,
): Promise<readonly Enqueued[]> {
  const enqueued: Enqueued[] = [];
  for (let start = 0; start < requests.length; start += MAX_JOBS) {
    enqueued.push(...(await run(buildEnqueueCall(requests.slice(start, start + MAX_JOBS)))));
  }
  return enqueued;
}

function buildEnqueueCall(requests: readonly JobRequest[]): calls.Call<Enqueued[]> {
  const [first] = requests;
  // The engine has faster functions for one job, and for jobs that differ in their payloads only.
  if (requests.length === 1 && first !== undefined) return calls.enqueueJob(first);
  return calls.areUniform(requests) ? calls.enqueuePayloads(requests) : calls.enqueueJobs(requests);
}

async function enqueueOverChannel(
  channel: { enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]> },
  own: string,
  requests: readonly JobRequest[],
  tenant: string | undefined,
): Promise<EnqueueResult> {
  const chosen = tenant ?? AMBIENT_TENANT.getStore();
  if (chosen !== undefined && chosen.toLowerCase() !== own) {
    throw new Denied("A job can enqueue only for its own tenant; omit tenant", {
      field: "tenant",
    });
  }
  return { tenantId: own, jobs: await channel.enqueue(requests) };
}

function tenantLookupError(error: unknown, tenant: string): unknown {
  if (error instanceof NotFound)
    return new NotFound(`Tenant '${tenant}' not found`, { field: "tenant" });
  if (error instanceof Denied) {
    return new Denied(
      `This login is not allowed to look up tenant '${tenant}'; use its UUID, or grant` +
        " jobforge_service to the login",
      { field: "tenant" },
    );
  }
  return error;
}

/** Return the error with a hint, if one is known. */
function withHint(error: unknown, conn: Queryable | undefined): unknown {
  const hint = findHint(error, conn);
  if (!(error instanceof JobForgeError) || hint === null) return error;
  const kind = error.constructor as typeof JobForgeError;
  const { field, detail } = error;
  return new kind(`${error.message}. ${hint}`, { field, detail, hint, cause: error });
}

function findHint(error: unknown, conn: Queryable | undefined): string | null {
  if (error instanceof UnknownDefinition) {
    return "Start a worker of this app, or call jf.register() with a login in jobforge_worker";
  }
  if (error instanceof TenantRequired && conn !== undefined) {
    return (
      "Grant jobforge_service to the connection's login, or set" +
      " app.tenant_id in its transaction"
    );
  }
  return null;
}
