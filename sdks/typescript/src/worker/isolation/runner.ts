/**
 * Running each job in a process of its own: `isolation: "process"`. Node cannot fork, so a few
 * processes are started ahead, with the app imported, and each takes one job.
 */

import { ConfigError } from "../../errors.ts";
import { Process, Waiting } from "../../isolation/process.ts";
import { eraseEnvironment } from "../../process/hardening.ts";
import { LOG_SCOPE } from "../../redact/index.ts";
import type { Runnable } from "../../sdk/definition.ts";
import type { Limits, Settings } from "../../sdk/settings.ts";
import type { ClaimedJob } from "../../types/jobs.ts";
import type { Host, OnEnd, Run, Runner } from "../runner.ts";
import { profileOf } from "./limits.ts";

export interface IsolationOptions {
  /** The module that exports the app, as a URL: `import.meta.url`. Processes of jobs import it. */
  readonly module?: string | undefined;
  /** How many processes wait for jobs, for each set of limits; 2. */
  readonly warm?: number | undefined;
  /** Names of variables that jobs see; everything else is kept from them. */
  readonly jobEnvironment?: readonly string[] | undefined;
}

export class Isolated implements Runner {
  readonly #host: Host;
  readonly #module: string;
  readonly #warm: number;
  readonly #environment: readonly string[];
  readonly #profiles: ReadonlyMap<string, Limits>;
  readonly #waiting = new Map<string, Waiting[]>();
  #isClosed = false;

  constructor(host: Host, definitions: readonly Settings[], options: IsolationOptions) {
    if (process.platform === "win32") {
      throw new ConfigError("jobs have no process of their own here: use isolation: inline");
    }
    if (options.module === undefined) {
      const keys = definitions.map(({ key }) => key).join(", ");
      throw new ConfigError(
        `${keys} run in processes of their own, which have to import them: give the worker` +
          ' { module: import.meta.url } of the module that exports the app, or isolation: "inline"',
        { field: "module" },
      );
    }
    this.#host = host;
    this.#module = options.module;
    this.#warm = options.warm ?? 2;
    this.#environment = options.jobEnvironment ?? [];
    this.#profiles = new Map(definitions.map(({ limits }) => [profileOf(limits), limits]));
  }

  /** Fails when the app cannot be imported, and says why. */
  async open(): Promise<void> {
    eraseEnvironment();
    for (const [profile, limits] of this.#profiles) {
      const first = new Waiting(this.#module, limits);
      if (!(await first.ready)) {
        first.kill();
        const said = await first.stderr.text(LOG_SCOPE);
        throw new ConfigError(`the processes of jobs cannot import the app: ${said}`);
      }
      this.#waiting.set(profile, [first]);
      this.#refill(profile, limits);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiting of this.#waiting.values()) for (const each of waiting) each.kill();
    this.#waiting.clear();
  }

  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run {
    const { limits } = definition.settings;
    const profile = profileOf(limits);
    const found = this.#waiting.get(profile)?.shift();
    const waiting = found?.isAlive ? found : new Waiting(this.#module, limits);
    const parts = { host: this.#host, onEnd, environment: this.#environment };
    const run = new Process(waiting, job, definition, parts);
    // After what is to be started now: the next job needs it, not this one.
    setImmediate(() => this.#refill(profile, limits));
    return run;
  }

  #refill(profile: string, limits: Limits): void {
    if (this.#isClosed) return;
    const waiting = (this.#waiting.get(profile) ?? []).filter((each) => each.isAlive);
    while (waiting.length < this.#warm) waiting.push(new Waiting(this.#module, limits));
    this.#waiting.set(profile, waiting);
  }
}
