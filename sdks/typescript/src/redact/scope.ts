/**
 * Which registered secrets are hidden in which output.
 *
 * What tenants see must not depend on the secrets of others: a tenant that can have its own text
 * shown could otherwise test guesses, or spoil the output of other tenants. So a job's output hides
 * the secrets that this job was given, and those that its tenant's jobs or the app registered. The
 * secrets of the installation are hidden in logs alone, which tenants do not see.
 * docs/decisions/0041 has the reasons.
 */

import { CURRENT_JOB } from "../sdk/job-scope.ts";
import type { ClaimedJob } from "../types/jobs.ts";
import { hideForms, occursIn, Registry } from "./registry.ts";

export const MARKER = "[redacted]";

const MAX_VALUES = 1000;
const MAX_TENANTS = 1000;
const MAX_OF_TENANT = 100;

/** The values that `registerSecret` was given outside of a job. */
export const APP_SECRETS = new Registry(MAX_VALUES);
/** The installation's own: few, and never forgotten. */
export const OPERATOR_SECRETS = new Registry();
/** What jobs were given by `ctx.secret`. A rotated secret has a new value each time. */
export const JOB_SECRETS = new Registry(MAX_VALUES);
// What `registerSecret` was given in jobs. Inline jobs of one tenant share an async context, because
// to make one for each would cost a tenth of a short job: so it is not known which of them called.
const tenants = new Map<string, Registry>();
const jobs = new WeakMap<ClaimedJob, RedactionScope>();

/** The values and the payload of a scope, for another thread. */
export interface ScopeData {
  readonly values: readonly string[];
  readonly payload: string;
}

/**
 * The registered secrets that are hidden in one kind of output. A value that is in the payload is
 * shown: the caller knows it already, and hiding it would confirm a guess.
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

  /** Hides this value too. False for one that is too short or an ordinary word. */
  add(value: string): boolean {
    this.#own ??= new Registry();
    return this.#own.add(value);
  }

  /** The text with all occurrences of the values replaced. */
  hide(text: string): string {
    const registries = this.#registries();
    if (registries.length === 0) return text;
    return hideForms(text, registries, MARKER, (value) => this.#isShown(value));
  }

  /** Whether the whole text is one of the values. */
  has(text: string): boolean {
    return this.#registries().some((each) => each.has(text)) && !this.#isShown(text);
  }

  /** The text without the rest of a value whose beginning was cut off before it. */
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

/** What is hidden in the output of a job. Made when there is output; it lasts as long as the job. */
export function jobScope(job: ClaimedJob): RedactionScope {
  let scope = jobs.get(job);
  if (scope === undefined) {
    scope = new RedactionScope(() => [APP_SECRETS, tenants.get(job.tenant_id)], job.payload_json);
    jobs.set(job, scope);
  }
  return scope;
}

/** Outside of the output of one job: what the app has registered, and the tenant of the code. */
export const CURRENT_SCOPE = new RedactionScope(() => [APP_SECRETS, getTenantRegistry()]);

/** What is hidden in logs and in messages to the operator. */
export const LOG_SCOPE = new RedactionScope(() => [
  OPERATOR_SECRETS,
  JOB_SECRETS,
  APP_SECRETS,
  getTenantRegistry(),
]);

/** In a job, for the jobs of its tenant; elsewhere, for all jobs of the app. */
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
