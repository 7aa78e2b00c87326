/**
 * Redaction of long texts in another thread, so that the event loop stays free for leases and
 * heartbeats. Short ones are redacted at once, and the thread is started with the first long one.
 */

import { Worker as Thread } from "node:worker_threads";
import type { Json } from "../types/jobs.ts";
import { hide, hideInTail, type Scope } from "./index.ts";
import type { ScopeData } from "./scope.ts";

/** In characters: redacting this much takes a few milliseconds. */
export const LARGE = 16 * 1024;
const MOST_WEIGHED = 16 * 1024 ** 2;

/** A value, or what is left of an output. */
export type Item = { readonly value: Json } | { readonly tail: string; readonly isCut: boolean };

/** For the thread: each item comes with the place of its scope. */
export interface Request {
  readonly number: number;
  readonly scopes: readonly ScopeData[];
  readonly items: readonly (readonly [Item, number])[];
}

export interface Response {
  readonly number: number;
  readonly shown: readonly Json[];
}

type Scoped = readonly [item: Item, scope: Scope];

/** The items with every secret in them hidden. */
export async function hideAside(items: readonly Scoped[]): Promise<readonly Json[]> {
  const size = items.reduce((sum, [item]) => sum + sizeOf(item), 0);
  const shown = size > LARGE ? await asked(items) : null;
  return shown ?? items.map(([item, scope]) => shownItem(item, scope));
}

export function shownItem(item: Item, scope: Scope): Json {
  return "tail" in item ? hideInTail(item.tail, item.isCut, scope) : hide(item.value, scope);
}

/** Roughly the number of characters of a value as JSON; of a very large one, of a part. */
export function weigh(value: Json): number {
  let weight = 0;
  for (const left: unknown[] = [value]; left.length > 0 && weight < MOST_WEIGHED; ) {
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

function sizeOf(item: Item): number {
  return "tail" in item ? item.tail.length : weigh(item.value);
}

const EXTENSION = import.meta.url.slice(import.meta.url.lastIndexOf("."));
const unanswered = new Map<number, (shown: readonly Json[] | null) => void>();
let thread: Thread | null = null;
let last = 0;

/** Null when the thread has failed, as in a bundle that does not contain its file. */
async function asked(items: readonly Scoped[]): Promise<readonly Json[] | null> {
  const scopes = [...new Set(items.map(([, scope]) => scope))];
  const places = new Map(scopes.map((scope, place) => [scope, place]));
  const request: Request = {
    number: ++last,
    scopes: scopes.map((scope) => scope.data),
    items: items.map(([item, scope]) => [item, places.get(scope) ?? 0]),
  };
  return await new Promise((resolve) => {
    unanswered.set(request.number, resolve);
    try {
      thread ??= started();
      thread.ref();
      thread.postMessage(request);
    } catch {
      // Nested too deep to be copied.
      unanswered.delete(request.number);
      resolve(null);
    }
  });
}

function started(): Thread {
  const made = new Thread(new URL(`./background-thread${EXTENSION}`, import.meta.url), {
    execArgv: [],
  });
  made.on("message", ({ number, shown }: Response) => {
    const resolve = unanswered.get(number);
    unanswered.delete(number);
    if (unanswered.size === 0) made.unref();
    resolve?.(shown);
  });
  made.on("error", () => undefined);
  made.on("exit", () => {
    thread = null;
    const left = [...unanswered.values()];
    unanswered.clear();
    for (const resolve of left) resolve(null);
  });
  return made;
}
