/**
 * Hides credentials from other processes of the same user.
 *
 * The kernel shows the environment and the arguments with which a process was started, even after
 * process.env and process.argv have changed: /proc/<pid>/environ to processes of the same user,
 * /proc/<pid>/cmdline to all. Only Linux has these files. A process can overwrite them by writing
 * to its own memory. Node cannot make a process undumpable as the Python worker does, so processes
 * that may attach to this one can still read its memory.
 */

import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { withholdCredentials } from "./environment.ts";

const MASK = "***";
const OPTION = "--database-url";
const CREDENTIALS_IN_URL = /:\/\/[^/\s]*:[^/\s]*@|[?&]password=/i;

type Span = readonly [start: number, end: number];

/** Call this first in `jobforge-worker`. Returns false if the environment could not be hidden. */
export function harden(): boolean {
  refuseDebugger();
  const isHidden = eraseEnvironment();
  maskArguments();
  withholdCredentials();
  return isHidden;
}

/**
 * Ignore SIGUSR1, on which Node opens its debugger port. Otherwise a job, which runs as the same
 * user, could run code in another process. `--inspect` still opens the debugger.
 */
export function refuseDebugger(): void {
  if (process.platform !== "win32") process.on("SIGUSR1", () => undefined);
}

/**
 * Overwrite the content of this process's /proc/<pid>/environ with `kept`; process.env does not
 * change. Returns false if the system does not permit it, and true on systems without this file.
 */
export function eraseEnvironment(kept = ""): boolean {
  const span = findStartBlocks()?.environment;
  if (span === undefined) return process.platform !== "linux";
  // The C library points into the block, so each variable gets a copy first.
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

/** Return the memory addresses of this process's arguments and environment. */
function findStartBlocks(): { readonly arguments: Span; readonly environment: Span } | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const stat = readFileSync("/proc/self/stat", "latin1");
    // Field 2 is the program's name in parentheses, which may itself contain parentheses and
    // spaces.
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
