/**
 * Redacts long texts in another thread, so that the event loop stays free for leases and
 * heartbeats. Short texts are redacted at once; the first long text starts the thread.
 */

import { Worker as Thread } from "node:worker_threads";
import type { Json } from "../types/jobs.ts";
import { hide, type RedactionScope, redactTail } from "./index.ts";
import type { ScopeData } from "./scope.ts";

/** In characters; redacting this many takes a few milliseconds. */
export const MIN_BACKGROUND_LENGTH = 16 * 1024;
const MAX_COUNTED = 16 * 1024 ** 2;

/** A value, or the tail of an output. */
export type RedactionItem =
  | { readonly value: Json }
  | { readonly tail: string; readonly isCut: boolean };

/** A message to the thread. Each item has the index of its scope. */
export interface ThreadRequest {
  readonly number: number;
  readonly scopes: readonly ScopeData[];
  readonly items: readonly (readonly [RedactionItem, number])[];
}

export interface ThreadResponse {
  readonly number: number;
  readonly shown: readonly Json[];
}

type Scoped = readonly [item: RedactionItem, scope: RedactionScope];

/** Return the items with all secrets redacted. */
export async function redactInBackground(items: readonly Scoped[]): Promise<readonly Json[]> {
  const size = items.reduce((sum, [item]) => sum + sizeOf(item), 0);
  const shown = size > MIN_BACKGROUND_LENGTH ? await redactInThread(items) : null;
  return shown ?? items.map(([item, scope]) => redactItem(item, scope));
}

export function redactItem(item: RedactionItem, scope: RedactionScope): Json {
  return "tail" in item ? redactTail(item.tail, item.isCut, scope) : hide(item.value, scope);
}

/** Estimate the number of characters of the value as JSON. Counting stops at MAX_COUNTED. */
export function estimateSize(value: Json): number {
  let weight = 0;
  for (const left: unknown[] = [value]; left.length > 0 && weight < MAX_COUNTED; ) {
    const each = left.pop();
    if (typeof each === "string") weight += each.length;
    else if (typeof each !== "object" || each === null) weight += 8;
    else {
      for (const [name, inner] of Object.entries(each)) {
        weight += name.length;
        left.push(inner);
      }
    }
  }
  return weight;
}

function sizeOf(item: RedactionItem): number {
  return "tail" in item ? item.tail.length : estimateSize(item.value);
}

const EXTENSION = import.meta.url.slice(import.meta.url.lastIndexOf("."));
const pendingRequests = new Map<number, (shown: readonly Json[] | null) => void>();
let thread: Thread | null = null;
let last = 0;

/** Return null if the thread has failed, for example in a bundle that lacks its file. */
async function redactInThread(items: readonly Scoped[]): Promise<readonly Json[] | null> {
  const scopes = [...new Set(items.map(([, scope]) => scope))];
  const positions = new Map(scopes.map((scope, position) => [scope, position]));
  const request: ThreadRequest = {
    number: ++last,
    scopes: scopes.map((scope) => scope.data),
    items: items.map(([item, scope]) => [item, positions.get(scope) ?? 0]),
  };
  return await new Promise((resolve) => {
    pendingRequests.set(request.number, resolve);
    try {
      thread ??= startThread();
      thread.ref();
      thread.postMessage(request);
    } catch {
      // Structured cloning fails for deeply nested values.
      pendingRequests.delete(request.number);
      resolve(null);
    }
  });
}

function startThread(): Thread {
  const created = new Thread(new URL(`./background-thread${EXTENSION}`, import.meta.url), {
    execArgv: [],
  });
  created.on("message", ({ number, shown }: ThreadResponse) => {
    const resolve = pendingRequests.get(number);
    pendingRequests.delete(number);
    if (pendingRequests.size === 0) created.unref();
    resolve?.(shown);
  });
  created.on("error", () => undefined);
  created.on("exit", () => {
    thread = null;
    const left = [...pendingRequests.values()];
    pendingRequests.clear();
    for (const resolve of left) resolve(null);
  });
  return created;
}
