/**
 * Decides which registered secrets are redacted in which output.
 *
 * The output that a tenant sees must not depend on the secrets of others. Otherwise a tenant that
 * can have its own text displayed could test guesses, or corrupt the output of other tenants. So a
 * job's output redacts the secrets that this job received, and those that its tenant's jobs or the
 * app registered. Secrets of the installation are redacted only in logs, which tenants do not see.
 * See docs/decisions/0041.
 */

import { CURRENT_JOB } from "../sdk/call-context.ts";
import type { ClaimedJob } from "../types/jobs.ts";
import { hideForms, occursIn, Registry } from "./registry.ts";

export const MARKER = "[redacted]";

const MAX_VALUES = 1000;
const MAX_TENANTS = 1000;
const MAX_OF_TENANT = 100;

/** Values that `registerSecret` received outside of jobs. */
export const APP_SECRETS = new Registry(MAX_VALUES);
/** Secrets of the installation: few, and never evicted. */
export const OPERATOR_SECRETS = new Registry();
/** Secrets that jobs received from `ctx.secret`. A rotated secret has a new value each time. */
export const JOB_SECRETS = new Registry(MAX_VALUES);
// Values that `registerSecret` received in jobs, by tenant. The calling job is unknown, because
// inline jobs of one tenant share an async context: creating one for each job would add about 10%
// to a short job.
const tenants = new Map<string, Registry>();
const jobs = new WeakMap<ClaimedJob, RedactionScope>();

/** The values and the payload of a scope, for another thread. */
export interface ScopeData {
  readonly values: readonly string[];
  readonly payload: string;
}

/**
 * The registered secrets that are redacted in one kind of output. Values that the payload contains
 * are not redacted: the caller already knows them, and redacting them would confirm a guess.
 */
export class RedactionScope {
  readonly #shared: () => readonly (Registry | undefined)[];
  readonly #payload: string;
  #own: Registry | undefined;
  #shown: Map<string, boolean> | undefined;

  constructor(shared: () => readonly (Registry | undefined)[], payload = "") {
    this.#shared = shared;
    this.#payload = payload;
  }

  static of({ values, payload }: ScopeData): RedactionScope {
    const scope = new RedactionScope(() => [], payload);
    for (const value of values) scope.add(value);
    return scope;
  }

  get data(): ScopeData {
    const values = this.#registries().flatMap((each) => [...each.values]);
    return { values, payload: values.length > 0 ? this.#payload : "" };
  }

  /** Also redact this value. Returns false for one that is too short or an ordinary word. */
  add(value: string): boolean {
    this.#own ??= new Registry();
    return this.#own.add(value);
  }

  /** Return the text with all occurrences of the values replaced. */
  hide(text: string): string {
    const registries = this.#registries();
    if (registries.length === 0) return text;
    return hideForms(text, registries, MARKER, (value) => this.#isShown(value));
  }

  /** Whether the whole text is one of the values. */
  has(text: string): boolean {
    return this.#registries().some((each) => each.has(text)) && !this.#isShown(text);
  }

  /** Remove the remainder of a value whose beginning was truncated. */
  stripCutValue(text: string): string {
    const rests = this.#registries().map((each) => each.cutValueLength(text));
    return text.slice(Math.max(0, ...rests));
  }

  #registries(): Registry[] {
    return [...this.#shared(), this.#own].filter((each): each is Registry => !!each?.size);
  }

  #isShown(value: string): boolean {
    if (this.#payload === "") return false;
    this.#shown ??= new Map();
    let isShown = this.#shown.get(value);
    if (isShown === undefined) {
      isShown = occursIn(value, this.#payload);
      this.#shown.set(value, isShown);
    }
    return isShown;
  }
}

/**
 * Return the scope of the job's output. It is created on first use and lives as long as the job
 * object.
 */
export function jobScope(job: ClaimedJob): RedactionScope {
  let scope = jobs.get(job);
  if (scope === undefined) {
    scope = new RedactionScope(() => [APP_SECRETS, tenants.get(job.tenant_id)], job.payload_json);
    jobs.set(job, scope);
  }
  return scope;
}

/** The scope outside of the output of one job: secrets of the app, and of the current tenant. */
export const CURRENT_SCOPE = new RedactionScope(() => [APP_SECRETS, getTenantRegistry()]);

/** The scope of logs and of messages to the operator. */
export const LOG_SCOPE = new RedactionScope(() => [
  OPERATOR_SECRETS,
  JOB_SECRETS,
  APP_SECRETS,
  getTenantRegistry(),
]);

/** Register a secret: in a job, for the jobs of its tenant; elsewhere, for all jobs of the app. */
export function register(value: string): boolean {
  const tenantId = CURRENT_JOB.getStore()?.tenantId;
  return (tenantId === undefined ? APP_SECRETS : getOrCreateTenantRegistry(tenantId)).add(value);
}

function getOrCreateTenantRegistry(tenantId: string): Registry {
  const registry = tenants.get(tenantId) ?? new Registry(MAX_OF_TENANT);
  tenants.delete(tenantId);
  tenants.set(tenantId, registry);
  if (tenants.size > MAX_TENANTS) {
    const [oldest] = tenants.keys();
    if (oldest !== undefined) tenants.delete(oldest);
  }
  return registry;
}

function getTenantRegistry(): Registry | undefined {
  const tenantId = CURRENT_JOB.getStore()?.tenantId;
  return tenantId === undefined ? undefined : tenants.get(tenantId);
}
