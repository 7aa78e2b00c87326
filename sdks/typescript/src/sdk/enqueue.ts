/** Enqueuing jobs of one definition, typed by its parameters. */

import type { z } from "zod";
import type { Enqueued, JobRequest } from "../types/jobs.ts";
import type { EngineClient } from "./engine-client.ts";
import { Handle } from "./handle.ts";
import { type EnqueueOptions, readOptions, type Using } from "./options.ts";
import { buildPayload } from "./parameters.ts";

/** What jobs of a definition are made of. */
export interface EnqueueTarget<R> {
  readonly key: string;
  readonly version: number;
  readonly params: z.ZodObject;
  readonly result: z.ZodType<R> | undefined;
  readonly client: EngineClient;
}

/** One of many: arguments, and options of its own. */
export interface Many<I> {
  readonly args: I;
  readonly using?: Omit<Using, "tenant" | "conn">;
}

/** `I` is what may be given as arguments, `R` what the jobs return. */
export class Enqueuer<I, R> {
  readonly #target: EnqueueTarget<R>;
  readonly #options: EnqueueOptions;

  constructor(target: EnqueueTarget<R>, options: EnqueueOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** The same, with these options; what it returns can be kept and used again. */
  using(given: Using): Enqueuer<I, R> {
    return new Enqueuer<I, R>(this.#target, readOptions(given, this.#options));
  }

  /** Resolves once the job is stored; on a connection that was given, once that commits. */
  async enqueue(args: I): Promise<Handle<R>> {
    const [handle] = await this.#send([this.#request(args, this.#options)]);
    return handle as Handle<R>;
  }

  /** All or none, in one transaction; the handles come in the order of the arguments. */
  async enqueueMany(many: Iterable<I>): Promise<Handle<R>[]> {
    return await this.#send(this.requests(many));
  }

  /** As enqueueMany, each with options of its own: a key, a delay. */
  async enqueueEach(many: Iterable<Many<I>>): Promise<Handle<R>[]> {
    const requests = [...many].map(({ args, using = {} }) =>
      this.#request(args, readOptions(using, this.#options)),
    );
    return await this.#send(requests);
  }

  // The rest is for jobs that enqueue others as a step.

  get key(): string {
    return this.#target.key;
  }

  requests(many: Iterable<I>): JobRequest[] {
    return [...many].map((args) => this.#request(args, this.#options));
  }

  handle(tenantId: string, job: Enqueued): Handle<R> {
    return new Handle(this.#target.client, this.#target.result, tenantId, job);
  }

  #request(args: I, options: EnqueueOptions): JobRequest {
    const { key, version, params } = this.#target;
    return { definition: key, version, payload: buildPayload(params, args), ...options.request };
  }

  async #send(requests: readonly JobRequest[]): Promise<Handle<R>[]> {
    const { tenant, conn } = this.#options;
    const sent = await this.#target.client.enqueue(requests, tenant, conn);
    return sent.jobs.map((job) => this.handle(sent.tenantId, job));
  }
}
