/** A client of the HTTP API for programs without a database connection. */

import { classFromCode } from "../db/sqlstates.ts";
import { ConfigError, type JobForgeError, Unavailable } from "../errors.ts";
import type { components, operations } from "./types.ts";

type Schemas = components["schemas"];
/** The body of a request that enqueues a job. */
export type NewJob = Schemas["NewJob"];
/** The response to a request that enqueues a job. */
export type CreatedJob = Schemas["CreatedJobView"];
/** A job with its payload and result. */
export type ServedJob = Schemas["Job"];
/** A job with its attempts and its timeline. */
export type JobHistory = Schemas["JobHistory"];
/** A page of a list of jobs. */
export type JobPage = Schemas["Page_JobListing_"];
/** A schedule or event trigger to preview. */
export type PreviewRequest = Partial<Schemas["PreviewRequest"]>;
/** What a trigger would do. */
export type Preview = Schemas["Preview"];
/** The filters of `listJobs`, and its page. */
export type ListQuery = NonNullable<operations["list_jobs"]["parameters"]["query"]>;

/** The options of `new ServerClient(…)`. */
export interface ServerOptions {
  /** URL of the server: `https://jobs.example.com`. */
  readonly url: string;
  /** API key: `jf_…`. */
  readonly key: string;
  /** UUID or slug of the tenant to act for. Only operators' keys can set it. */
  readonly tenant?: string;
  /** Timeout of a request, in milliseconds (default: 30,000). */
  readonly timeoutMs?: number;
  /** Replacement for the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

interface RequestParts {
  readonly query?: ListQuery;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const TIMEOUT_MS = 30_000;

/** A client of the HTTP API. */
export class ServerClient {
  readonly #options: ServerOptions;
  readonly #base: string;

  constructor(options: ServerOptions) {
    if (!/^https?:\/\//.test(options.url)) {
      throw new ConfigError(`server must be a URL, not ${options.url}`, { field: "url" });
    }
    this.#options = options;
    this.#base = `${options.url.replace(/\/+$/, "")}/api/v1`;
  }

  /**
   * Enqueue a job. Requests with the same `requestKey` within 24 hours create one job and return
   * the same response.
   */
  async enqueue(job: NewJob, requestKey?: string): Promise<CreatedJob> {
    return await this.#request("POST", "/jobs", {
      body: job,
      headers: idempotencyHeaders(requestKey),
    });
  }

  /** Enqueue all jobs or none. The results are in the order of the jobs. */
  async enqueueMany(jobs: readonly NewJob[], requestKey?: string): Promise<readonly CreatedJob[]> {
    const parts = { body: { jobs }, headers: idempotencyHeaders(requestKey) };
    return (await this.#request<Schemas["Items_CreatedJobView_"]>("POST", "/jobs/batch", parts))
      .items;
  }

  /** Return a job. */
  async getJob(jobId: string): Promise<ServedJob> {
    return (await this.getHistory(jobId)).job;
  }

  /** Return a job with its attempts and its timeline. */
  async getHistory(jobId: string): Promise<JobHistory> {
    return await this.#request("GET", `/jobs/${encodeURIComponent(jobId)}`);
  }

  /** Return jobs, newest first. `next` of a page is the `cursor` of the following page. */
  async listJobs(query: ListQuery = {}): Promise<JobPage> {
    return await this.#request("GET", "/jobs", { query });
  }

  /** Cancel a job. Returns `canceled`, or `canceling` if a worker must stop the job first. */
  async cancelJob(jobId: string, reason?: string): Promise<Schemas["State"]> {
    const path = `/jobs/${encodeURIComponent(jobId)}/cancel`;
    return (await this.#request<Schemas["JobState"]>("POST", path, { body: { reason } })).state;
  }

  /**
   * Retry a succeeded, canceled or dead job. Returns the ID of the job that will run: the same job
   * if it was dead, and a new job otherwise.
   */
  async retryJob(jobId: string, given: Schemas["RetryBody"] = {}): Promise<string> {
    const path = `/jobs/${encodeURIComponent(jobId)}/retry`;
    return (await this.#request<Schemas["JobId"]>("POST", path, { body: given })).id;
  }

  /**
   * Return when a schedule would fire next, or the payload that an event would produce. Nothing is
   * saved.
   */
  async previewTrigger(trigger: PreviewRequest): Promise<Preview> {
    return await this.#request("POST", "/triggers/preview", { body: trigger });
  }

  async #request<T>(method: string, path: string, parts: RequestParts = {}): Promise<T> {
    const { key, tenant, timeoutMs = TIMEOUT_MS, fetch = globalThis.fetch } = this.#options;
    const response = await fetchOrUnavailable(() =>
      fetch(`${this.#base}${path}${buildSearch(parts.query)}`, {
        method,
        redirect: "error",
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          authorization: `Bearer ${key}`,
          ...(parts.body === undefined ? {} : { "content-type": "application/json" }),
          ...(tenant === undefined ? {} : { "x-jobforge-tenant": tenant }),
          ...parts.headers,
        },
        body: parts.body === undefined ? null : JSON.stringify(parts.body),
      }),
    );
    const text = await fetchOrUnavailable(() => response.text());
    if (!response.ok) throw errorFromProblem(response.status, text);
    return JSON.parse(text) as T;
  }
}

function idempotencyHeaders(requestKey: string | undefined): Record<string, string> {
  return requestKey === undefined ? {} : { "idempotency-key": requestKey };
}

function buildSearch(query: ListQuery = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) search.append(name, String(each));
    }
  }
  return search.size > 0 ? `?${search}` : "";
}

async function fetchOrUnavailable<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw new Unavailable(`The server is unreachable: ${(cause as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * Return the error of the class that the problem's code names. Any other response comes from a
 * proxy in front of the server.
 */
function errorFromProblem(status: number, text: string): JobForgeError {
  try {
    const problem = JSON.parse(text) as Schemas["Problem"];
    const field = problem.errors?.[0]?.field ?? undefined;
    return new (classFromCode(problem.code))(problem.detail, { field, detail: { ...problem } });
  } catch {
    return new Unavailable(`The server returned ${status}`, { detail: { status } });
  }
}
