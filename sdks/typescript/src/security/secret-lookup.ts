/**
 * Looks up secrets by name: in a file of the secrets folder, as Kubernetes and Docker mount them,
 * then in the variable JOBFORGE_SECRET_<NAME>. Values are redacted in logs from then on.
 */

import { readFileSync, realpathSync, statSync } from "node:fs";
import { join, sep } from "node:path";
import { Invalid, NotFound } from "../errors.ts";
import { emit } from "../observability/logs.ts";
import { readVariable } from "../process/environment.ts";
import { registerJobSecret, UNSAFE } from "../redact/index.ts";

const MAX_BYTES = 65_536;
// Settings of the installation, which are not secrets of jobs.
const RESERVED = /^JOBFORGE_SECRET_KEY(?:_PREVIOUS)?(?:_FILE)?$/;
// Secrets of one tenant's connectors.
const TENANT_SECRET = /^JOBFORGE_SECRET_[0-9A-F]{32}_/;

export class Secrets {
  readonly #folder: string | undefined;
  readonly #warned = new Set<string>();

  constructor(folder?: string | undefined) {
    this.#folder = folder;
  }

  /** Return the secret. Throws NotFound with a hint where the secret can be set. */
  lookup(name: string): string {
    if (!/^[A-Za-z0-9_.-]{1,100}$/.test(name) || name.startsWith("..")) {
      throw new Invalid("A secret name can contain only letters, digits, _ . and -", {
        field: "name",
      });
    }
    const named = `JOBFORGE_SECRET_${name.replace(/[.-]/g, "_").toUpperCase()}`;
    const value = this.#fromFolder(name) ?? fromEnvironment(named);
    if (value === undefined) {
      const file = this.#folder ? `, or create the file ${join(this.#folder, name)}` : "";
      throw new NotFound(`Secret '${name}' not found`, {
        hint: `Set the variable ${named}${file}`,
      });
    }
    if (!registerJobSecret(value) && !this.#warned.has(name)) {
      this.#warned.add(name);
      emit("secret.not_hidden", { secret_name: name, reason: UNSAFE }, "warning");
    }
    return value;
  }

  #fromFolder(name: string): string | undefined {
    if (this.#folder === undefined) return undefined;
    const path = resolveInside(this.#folder, name);
    if (path === null) return undefined;
    if (statSync(path).size > MAX_BYTES) {
      throw new Invalid(`Secret '${name}' is larger than 65,536 bytes`, { field: "name" });
    }
    return readFileSync(path, "utf8").replace(/\r?\n$/, "");
  }
}

function fromEnvironment(name: string): string | undefined {
  return RESERVED.test(name) || TENANT_SECRET.test(name) ? undefined : readVariable(name);
}

/**
 * Return the real path of the file if it is inside the folder. Kubernetes mounts files as links
 * into ..data, which is inside; links that lead outside are rejected.
 */
function resolveInside(folder: string, name: string): string | null {
  try {
    const path = realpathSync(join(folder, name));
    return path.startsWith(realpathSync(folder) + sep) && statSync(path).isFile() ? path : null;
  } catch {
    return null;
  }
}
