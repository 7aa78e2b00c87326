/**
 * The live stream: one connection for all tabs of a browser, delivered at most twice a second.
 *
 * The tab that holds the lock reads the stream and broadcasts it to the others. Where the Web Locks
 * API is unavailable (plain http from another host), each tab reads the stream itself.
 */

import { useEffect, useEffectEvent } from "react";
import { open, Problem } from "@/api/client";
import { parse } from "@/api/json";
import { routerBase } from "@/config";
import { read } from "@/live/events";
import { createStore } from "@/store";

export interface LiveEvent {
  kind: "attempt" | "event";
  tenant_id: string;
  job_id: string;
  definition: string;
  queue: string;
  at: string;
  outcome?: string;
  state?: string;
  attempt?: number;
  name?: string;
  data?: unknown;
}

export interface Batch {
  /** The counts have changed, or the state is unknown: fetch again. */
  counted: boolean;
}

export type Status = "connecting" | "live" | "paused" | "stale";

type StreamMessage =
  | { kind: "beat" }
  | { kind: "reset" }
  | { kind: "counts" }
  | { kind: "event"; event: LiveEvent };

const PACE_MS = 500;
const POLL_MS = 5_000;
const SILENCE_MS = 40_000;
const NAME = `jobforge.stream:${routerBase}`;

let isPaused = false;
let pending = emptyBatch();
let isPending = false;
let flushed = 0;
let timer: ReturnType<typeof setTimeout> | null = null;
let lastMessageAt: number | null = null;
const startedAt = Date.now();
let isBroken = false;
export const status = createStore<Status>("connecting");
const subscribers = new Set<(batch: Batch) => void>();
const listeners = new Set<(event: LiveEvent) => void>();
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(NAME);

function emptyBatch(): Batch {
  return { counted: false };
}

export function startLive(): void {
  channel?.addEventListener("message", (message) => receive(message.data as StreamMessage));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) schedule();
  });
  setInterval(watchSilence, POLL_MS);
  const lead = () => readStream();
  if (navigator.locks) void navigator.locks.request(NAME, lead);
  else void lead();
}

export function setPaused(paused: boolean): void {
  isPaused = paused;
  updateStatus();
  if (!paused) {
    isPending = true;
    pending.counted = true;
    schedule();
  }
}

export function togglePaused(): void {
  setPaused(!isPaused);
}

/**
 * Call `act` with each batch of events while the component is mounted and updates are not paused.
 */
export function useLive(act: (batch: Batch) => void): void {
  const latest = useEffectEvent(act);
  useEffect(() => {
    const tell = (batch: Batch) => latest(batch);
    subscribers.add(tell);
    return () => {
      subscribers.delete(tell);
    };
  }, []);
}

export function onBatch(act: (batch: Batch) => void): void {
  subscribers.add(act);
}

/**
 * Call `act` with each event at once, also while the page is hidden. The caller limits what it
 * stores.
 */
export function onLiveEvent(act: (event: LiveEvent) => void): void {
  listeners.add(act);
}

/** Never resolves, because the lock is held for as long as the page is open. */
async function readStream(): Promise<void> {
  let lastId: string | null = null;
  for (let failures = 0; ; failures += 1) {
    try {
      const answer = await open("/stream", lastId, new AbortController().signal);
      for await (const event of read(answer)) {
        failures = 0;
        lastId = event.id ?? lastId;
        const message = parseEvent(event.name, event.data);
        channel?.postMessage(message);
        receive(message);
      }
    } catch (error) {
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) lastId = null;
    }
    if (failures >= 2) {
      isBroken = true;
      updateStatus();
    }
    await new Promise((wake) => setTimeout(wake, Math.min(500 * 2 ** failures, 10_000)));
  }
}

function parseEvent(name: string, data: string): StreamMessage {
  if (name === "snapshot") return { kind: "counts" };
  if (name === "reset") return { kind: "reset" };
  if (name !== "attempt" && name !== "event") return { kind: "beat" };
  return { kind: "event", event: { ...(parse(data) as LiveEvent), kind: name } };
}

function receive(message: StreamMessage): void {
  lastMessageAt = Date.now();
  isBroken = false;
  updateStatus();
  if (message.kind === "beat") return;
  if (message.kind === "event") for (const listen of listeners) listen(message.event);
  pending.counted = true;
  isPending = true;
  schedule();
}

/** Pages fetch on their own when the stream is missing or has been silent for long. */
function watchSilence(): void {
  updateStatus();
  if (status.get() === "stale") {
    pending.counted = true;
    isPending = true;
    schedule();
  }
}

function schedule(): void {
  if (timer !== null || isPaused || !isPending || document.hidden) return;
  timer = setTimeout(flush, Math.max(0, PACE_MS - (Date.now() - flushed)));
}

function flush(): void {
  timer = null;
  if (isPaused) return;
  flushed = Date.now();
  const batch = pending;
  pending = emptyBatch();
  isPending = false;
  for (const tell of subscribers) tell(batch);
}

function updateStatus(): void {
  const silent = isBroken || Date.now() - (lastMessageAt ?? startedAt) > SILENCE_MS;
  status.set(
    isPaused ? "paused" : silent ? "stale" : lastMessageAt === null ? "connecting" : "live",
  );
}
