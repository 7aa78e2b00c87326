/**
 * The environment variables of job processes. The worker's environment has the database connection.
 * A warm process gets the worker's variables without credentials, because importing the app may
 * need them. A job gets only the variables that are permitted for jobs.
 */

import { isWithheld, selectVariables } from "../../process/environment.ts";

const PLAIN = ["PATH", "LANG", "LC_ALL", "TZ"];
const DEFAULTS = { LANG: "C.UTF-8", LC_ALL: "C.UTF-8", TZ: "UTC" };

/** Return the worker's variables without database connections and other credentials. */
export function buildWarmEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(([name]) => !isWithheld(name));
  return Object.fromEntries(kept);
}

/**
 * Reduce this process's environment to the variables that all jobs get, those that
 * match a name or pattern in `permitted`, and `own`.
 */
export function restrictEnvironment(
  permitted: readonly string[],
  own: Readonly<Record<string, string>>,
): void {
  const passedOn = selectVariables(permitted, Object.keys(process.env));
  const names = new Set([...PLAIN, ...passedOn, ...Object.keys(own)]);
  for (const name of Object.keys(process.env)) if (!names.has(name)) delete process.env[name];
  for (const [name, value] of Object.entries({ ...DEFAULTS, ...process.env, ...own })) {
    if (value !== undefined) process.env[name] = value;
  }
}
