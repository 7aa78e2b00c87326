/** Enqueues jobs of one definition, with arguments typed by its parameters. */

import type { z } from "zod";
import type { Enqueued, JobRequest } from "../types/jobs.ts";
import type { EngineClient } from "./engine-client.ts";
import { type EnqueueOptions, readOptions, type Using } from "./enqueue-options.ts";
import { Handle } from "./handle.ts";
import { buildPayload } from "./parameters.ts";

/** The parts of a definition that enqueuing needs. */
export interface EnqueueTarget<R> {
  readonly key: string;
  readonly version: number;
  readonly params: z.ZodObject;
  readonly result: z.ZodType<R> | undefined;
  readonly client: EngineClient;
}

/** The arguments and options of one job, for `enqueueEach`. */
export interface Many<I> {
  readonly args: I;
  readonly using?: Omit<Using, "tenant" | "conn">;
}

/**
 * A definition together with enqueue options. `I` is the type of the arguments, and `R` of the
 * results.
 */
export class Enqueuer<I, R> {
  readonly #target: EnqueueTarget<R>;
  readonly #options: EnqueueOptions;

  constructor(target: EnqueueTarget<R>, options: EnqueueOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** Return an enqueuer with these options added. It can be stored and reused. */
  using(given: Using): Enqueuer<I, R> {
    return new Enqueuer<I, R>(this.#target, readOptions(given, this.#options));
  }

  /**
   * Enqueue a job. The promise resolves once the job is stored. With `conn`, the job exists once
   * that transaction commits.
   */
  async enqueue(args: I): Promise<Handle<R>> {
    const [handle] = await this.#send([this.#request(args, this.#options)]);
    return handle as Handle<R>;
  }

  /**
   * Enqueue all jobs or none, in one transaction. The handles are in the order of the arguments.
   */
  async enqueueMany(many: Iterable<I>): Promise<Handle<R>[]> {
    return await this.#send(this.requests(many));
  }

  /** Enqueue all jobs or none, each with its own options such as a key or a delay. */
  async enqueueEach(many: Iterable<Many<I>>): Promise<Handle<R>[]> {
    const requests = [...many].map(({ args, using = {} }) =>
      this.#request(args, readOptions(using, this.#options)),
    );
    return await this.#send(requests);
  }

  // The members below are for jobs that enqueue child jobs as a step.

  /** The definition's key. */
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
