/**
 * The variables that the processes of jobs get, and those that they must not. A worker's own
 * environment holds its connection to the database. A process that waits for a job gets what is left
 * without that, because the app may need it to be imported; a job gets a built one.
 */

import { isCredential } from "../../process/environment.ts";

const PLAIN = ["PATH", "LANG", "LC_ALL", "TZ"];
const DEFAULTS = { LANG: "C.UTF-8", LC_ALL: "C.UTF-8", TZ: "UTC" };

/** The worker's variables without what leads to the database or to secrets. */
export function buildWarmEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(([name]) => !isConfidential(name));
  return Object.fromEntries(kept);
}

/** Leaves in this process what all jobs get, and what is let through. */
export function restrictEnvironment(
  letThrough: readonly string[],
  own: Readonly<Record<string, string>>,
): void {
  const names = new Set([...PLAIN, ...letThrough, ...Object.keys(own)]);
  for (const name of Object.keys(process.env)) if (!names.has(name)) delete process.env[name];
  for (const [name, value] of Object.entries({ ...DEFAULTS, ...process.env, ...own })) {
    if (value !== undefined) process.env[name] = value;
  }
}

function isConfidential(name: string): boolean {
  return isCredential(name) || name.startsWith("PG");
}
