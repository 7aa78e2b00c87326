/**
 * The variables of this process, and which of them hold credentials. `jobforge-worker` takes those
 * out of its environment, so that programs that it starts do not inherit them.
 */

const HARMLESS = ["JOBFORGE_LOG_LEVEL", "JOBFORGE_LOG_FORMAT", "JOBFORGE_TENANT"];
// Known across copies of this package: a worker and the app it loads may have one each.
const WITHHELD = Symbol.for("jobforge.environment");

const shared = globalThis as { [WITHHELD]?: Readonly<Record<string, string>> };

/** A variable of this process, also one that was removed from process.env. */
export function readVariable(name: string): string | undefined {
  return process.env[name] ?? shared[WITHHELD]?.[name];
}

/** Keeps a credential that did not come in a variable as if it had. */
export function withholdVariable(name: string, value: string): void {
  delete process.env[name];
  shared[WITHHELD] = { ...shared[WITHHELD], [name]: value };
}

/** Removes the variables with credentials from process.env; `variable` still finds them. */
export function withholdCredentials(): void {
  for (const [name, value] of Object.entries(process.env)) {
    if (isCredential(name) && value !== undefined) withholdVariable(name, value);
  }
}

/** Whether no other process may see the value of this variable. */
export function isCredential(name: string): boolean {
  return name === "PGPASSWORD" || (name.startsWith("JOBFORGE_") && !HARMLESS.includes(name));
}
