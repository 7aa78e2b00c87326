/** What runs the jobs of each definition that a worker serves. */

import { ConfigError } from "../errors.ts";
import type { Runnable } from "../sdk/definition.ts";
import type { Isolation } from "../sdk/settings.ts";
import type { Runner } from "./runner.ts";

interface Serving {
  readonly definition: Runnable;
  readonly runner: Runner;
}

/** By key, then by version: to put the two together for each job would cost more than to look. */
export type Served = ReadonlyMap<string, ReadonlyMap<number, Serving>>;

/** Without a runner a definition is left out. */
export function serve(
  definitions: Iterable<Runnable>,
  runners: ReadonlyMap<Isolation, Runner>,
): Served {
  const served = new Map<string, ReadonlyMap<number, Serving>>();
  for (const definition of definitions) {
    const runner = runners.get(definition.settings.isolation);
    if (runner === undefined) continue;
    const versions = definition.served.map((name) => Number(name.slice(name.lastIndexOf("@") + 1)));
    const serving = { definition, runner };
    served.set(
      definition.settings.key,
      new Map(versions.map((version) => [version, serving] as const)),
    );
  }
  if (served.size === 0)
    throw new ConfigError("the app has no definitions that this worker can run");
  return served;
}

/** `key@version` of each, as the engine names them. */
export function namesOf(served: Served): string[] {
  return [...served].flatMap(([key, versions]) =>
    [...versions.keys()].map((version) => `${key}@${version}`),
  );
}
