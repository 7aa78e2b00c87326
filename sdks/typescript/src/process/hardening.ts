/**
 * Hides credentials from other processes of the same user.
 *
 * The kernel shows the environment and the arguments with which a process was started, whatever
 * becomes of process.env and process.argv: /proc/<pid>/environ to processes of its user,
 * /proc/<pid>/cmdline to all. Only Linux has these files; a process may write to its own memory, and
 * so overwrite them. Node cannot make a process undumpable as the Python worker does, so its memory
 * stays readable to processes that may attach to it.
 */

import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { withholdCredentials } from "./environment.ts";

const MASK = "***";
const OPTION = "--database-url";
const CREDENTIALS_IN_URL = /:\/\/[^/\s]*:[^/\s]*@|[?&]password=/i;

type Span = readonly [start: number, end: number];

/** The first call of `jobforge-worker`. False if its environment could not be hidden. */
export function harden(): boolean {
  refuseDebugger();
  const isHidden = eraseEnvironment();
  maskArguments();
  withholdCredentials();
  return isHidden;
}

/**
 * Node opens its debugger on a port of the machine when a process of the same user sends SIGUSR1:
 * a job could run code in another process. Whoever needs it starts with --inspect.
 */
export function refuseDebugger(): void {
  if (process.platform !== "win32") process.on("SIGUSR1", () => undefined);
}

/**
 * Overwrites what /proc/<pid>/environ shows of this process, but for `kept`; process.env stays as it
 * is. False if the system does not permit it; true where there is no such file.
 */
export function eraseEnvironment(kept = ""): boolean {
  const span = findStartBlocks()?.environment;
  if (span === undefined) return process.platform !== "linux";
  // The C library points into that block: it gets a copy of each variable first.
  for (const [name, value] of Object.entries(process.env)) process.env[name] = value;
  const block = Buffer.alloc(span[1] - span[0]);
  block.write(kept);
  return overwrite(span[0], block);
}

function maskArguments(): void {
  const span = findStartBlocks()?.arguments;
  if (span === undefined) return;
  const args = readFileSync("/proc/self/cmdline", "latin1").split("\0");
  const masked = args.map((word, index) => {
    const replacement = maskArgument(word, args[index - 1] ?? "");
    return replacement === word ? word : replacement.slice(0, word.length).padEnd(word.length, "*");
  });
  const block = Buffer.from(masked.join("\0"), "latin1");
  if (masked.join() !== args.join()) overwrite(span[0], block.subarray(0, span[1] - span[0]));
}

function maskArgument(word: string, before: string): string {
  if (word.startsWith(`${OPTION}=`)) return `${OPTION}=${MASK}`;
  return before === OPTION || CREDENTIALS_IN_URL.test(word) ? MASK : word;
}

/** Where in memory the kernel put the arguments and variables of this process. */
function findStartBlocks(): { readonly arguments: Span; readonly environment: Span } | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const stat = readFileSync("/proc/self/stat", "latin1");
    // The name, in brackets, may itself contain brackets and spaces.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [argStart = 0, argEnd = 0, envStart = 0, envEnd = 0] = fields.slice(45, 49).map(Number);
    if (argStart === 0 || envStart === 0) return undefined;
    return { arguments: [argStart, argEnd], environment: [envStart, envEnd] };
  } catch {
    return undefined;
  }
}

function overwrite(start: number, block: Buffer): boolean {
  try {
    const memory = openSync("/proc/self/mem", "r+");
    try {
      return writeSync(memory, block, 0, block.length, start) === block.length;
    } finally {
      closeSync(memory);
    }
  } catch {
    return false;
  }
}
