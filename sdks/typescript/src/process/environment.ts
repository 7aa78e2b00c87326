/**
 * The environment variables of this process, and which of them hold credentials. `jobforge-worker`
 * removes these from process.env, so that programs that it starts do not inherit them.
 */

const HARMLESS = ["JOBFORGE_LOG_LEVEL", "JOBFORGE_LOG_FORMAT", "JOBFORGE_TENANT"];
// Shared by all copies of this package: a worker and the app that it loads may each have their own.
const WITHHELD = Symbol.for("jobforge.environment");

const shared = globalThis as { [WITHHELD]?: Readonly<Record<string, string>> };

/** Return a variable, even if it was removed from process.env. */
export function readVariable(name: string): string | undefined {
  return process.env[name] ?? shared[WITHHELD]?.[name];
}

/** Store a credential as a withheld variable, and remove the variable from process.env. */
export function withholdVariable(name: string, value: string): void {
  delete process.env[name];
  shared[WITHHELD] = { ...shared[WITHHELD], [name]: value };
}

/** Remove the variables with credentials from process.env. `readVariable` still returns them. */
export function withholdCredentials(): void {
  for (const [name, value] of Object.entries(process.env)) {
    if (isCredential(name) && value !== undefined) withholdVariable(name, value);
  }
}

/** Whether the variable's value must be hidden from other processes. */
export function isCredential(name: string): boolean {
  return name === "PGPASSWORD" || (name.startsWith("JOBFORGE_") && !HARMLESS.includes(name));
}

/** Whether jobs, and the process that imports their app, must not get the variable. */
export function isWithheld(name: string): boolean {
  return isCredential(name) || name.startsWith("PG");
}

/** Return the names that jobs get: `AWS_*` matches names by their beginning, `*` all names. */
export function selectVariables(patterns: readonly string[], names: readonly string[]): string[] {
  const exact = new Set(patterns);
  const prefixes = patterns.filter((each) => each.endsWith("*")).map((each) => each.slice(0, -1));
  const matches = (name: string) =>
    exact.has(name) || prefixes.some((prefix) => name.startsWith(prefix));
  return names.filter((name) => matches(name) && !isWithheld(name));
}
