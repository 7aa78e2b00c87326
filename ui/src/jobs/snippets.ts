/** Code that enqueues the same job again: as a command, SQL, and so on. */

import { print, printShort } from "@/api/json";
import type { Job } from "@/api/schema";
import { config, tenant } from "@/config";

const PYTHON_WORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except " +
    "finally for from global if import in is lambda nonlocal not or pass raise return try while " +
    "with yield"
  ).split(" "),
);

export function snippets(job: Pick<Job, "definition" | "version" | "payload" | "queue">) {
  return [
    { label: "curl", text: asCurl(job) },
    { label: "Python", text: asPython(job) },
    { label: "CLI", text: asCommand(job) },
    { label: "JSON", text: print(job.payload) },
  ];
}

function asCurl(job: Pick<Job, "definition" | "version" | "payload">): string {
  const body = `{"definition": "${job.definition}@${job.version}", "payload": ${printShort(job.payload)}}`;
  const header = tenant === null ? "" : ` \\\n  -H 'X-JobForge-Tenant: ${tenant}'`;
  return `curl ${location.origin}${config.api}/jobs \\\n  -H "Authorization: Bearer $JOBFORGE_KEY"${header} \\\n  -H 'content-type: application/json' \\\n  -d ${shell(body)}`;
}

function asPython(job: Pick<Job, "definition" | "payload">): string {
  const all = Object.entries(job.payload);
  const parts = all
    .filter(([name]) => isPythonName(name))
    .map(([name, value]) => `${name}=${python(value)}`);
  const others = all.filter(([name]) => !isPythonName(name));
  if (others.length > 0) parts.push(`**${python(Object.fromEntries(others))}`);
  return `${job.definition}.enqueue(${parts.join(", ")})`;
}

function isPythonName(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name) && !PYTHON_WORDS.has(name);
}

function asCommand(job: Pick<Job, "definition" | "payload">): string {
  const parts = Object.entries(job.payload).map(([name, value]) =>
    typeof value === "string" ? shell(`${name}=${value}`) : shell(`${name}:=${printShort(value)}`),
  );
  const named = tenant === null ? "" : ` --tenant ${tenant}`;
  return `jobforge enqueue ${[job.definition, ...parts].join(" ")}${named}`;
}

function shell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function python(value: unknown): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype) {
    return `{${Object.entries(value)
      .map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`)
      .join(", ")}}`;
  }
  return printShort(value);
}
