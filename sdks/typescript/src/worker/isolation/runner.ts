/**
 * Runs each job in a separate process: `isolation: "process"`. Node cannot fork, so a few warm
 * processes are started ahead with the app imported, and each runs one job.
 */

import { ConfigError } from "../../errors.ts";
import { eraseEnvironment } from "../../process/hardening.ts";
import { LOG_SCOPE } from "../../redact/index.ts";
import type { Runnable } from "../../sdk/definition.ts";
import type { DefinitionSettings, ProcessLimits } from "../../sdk/definition-settings.ts";
import type { ClaimedJob } from "../../types/jobs.ts";
import type { JobServices } from "../job-services.ts";
import type { OnEnd, Run, Runner } from "../runner-protocol.ts";
import { JobProcess, WarmProcess } from "./job-process.ts";
import { toProfile } from "./limits.ts";

/** How a worker runs isolated jobs. */
export interface IsolationOptions {
  /** URL of the module that exports the app: `import.meta.url`. Job processes import it. */
  readonly module?: string | undefined;
  /** Number of warm processes for each set of limits (default: 2). */
  readonly warm?: number | undefined;
  /** Names of variables that jobs receive from the worker; `AWS_*` and `*` are patterns. */
  readonly jobEnvironment?: readonly string[] | undefined;
}

export class ProcessRunner implements Runner {
  readonly #services: JobServices;
  readonly #module: string;
  readonly #warm: number;
  readonly #environment: readonly string[];
  readonly #profiles: ReadonlyMap<string, ProcessLimits>;
  readonly #warmProcesses = new Map<string, WarmProcess[]>();
  #isClosed = false;

  constructor(
    services: JobServices,
    definitions: readonly DefinitionSettings[],
    options: IsolationOptions,
  ) {
    if (process.platform === "win32") {
      throw new ConfigError(
        'Jobs cannot run in separate processes on Windows; use isolation: "inline"',
      );
    }
    if (options.module === undefined) {
      const keys = definitions.map(({ key }) => key).join(", ");
      throw new ConfigError(
        `${keys} run in separate processes, which import the app; pass the worker` +
          ' { module: import.meta.url } of the module that exports the app, or isolation: "inline"',
        { field: "module" },
      );
    }
    this.#services = services;
    this.#module = options.module;
    this.#warm = options.warm ?? 2;
    this.#environment = options.jobEnvironment ?? [];
    this.#profiles = new Map(definitions.map(({ limits }) => [toProfile(limits), limits]));
  }

  /** Throws ConfigError with the output of the process if the app cannot be imported. */
  async open(): Promise<void> {
    eraseEnvironment();
    for (const [profile, limits] of this.#profiles) {
      const first = new WarmProcess(this.#module, limits);
      if (!(await first.ready)) {
        first.kill();
        const output = await first.stderr.text(LOG_SCOPE);
        throw new ConfigError(`The processes of jobs cannot import the app: ${output}`);
      }
      this.#warmProcesses.set(profile, [first]);
      this.#refill(profile, limits);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const warm of this.#warmProcesses.values()) for (const each of warm) each.kill();
    this.#warmProcesses.clear();
  }

  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run {
    const { limits } = definition.settings;
    const profile = toProfile(limits);
    const idle = this.#warmProcesses.get(profile)?.shift();
    const warm = idle?.isAlive ? idle : new WarmProcess(this.#module, limits);
    const parts = { services: this.#services, onEnd, environment: this.#environment };
    const run = new JobProcess(warm, job, definition, parts);
    // Deferred: this job has its process, and only later jobs need the new ones.
    setImmediate(() => this.#refill(profile, limits));
    return run;
  }

  #refill(profile: string, limits: ProcessLimits): void {
    if (this.#isClosed) return;
    const warm = (this.#warmProcesses.get(profile) ?? []).filter((each) => each.isAlive);
    while (warm.length < this.#warm) warm.push(new WarmProcess(this.#module, limits));
    this.#warmProcesses.set(profile, warm);
  }
}
