/** Finished attempts since the page was opened, in steps of five seconds, from the live stream. */

import { useRef, useState } from "react";
import { onLiveEvent, status, useLive } from "@/live/live";
import { useNow } from "@/parts/time";

const STEP_MS = 5_000;
const STEPS = 60;
const BAD = new Set(["failed", "timed_out", "crashed", "lease_lost"]);

interface Step {
  ok: number;
  bad: number;
}

// Module state, so that it survives navigation.
const steps = new Map<number, Step>();
onLiveEvent((said) => {
  if (said.kind !== "attempt") return;
  const at = Math.floor(Date.now() / STEP_MS);
  const step = steps.get(at);
  if (step === undefined) for (const old of steps.keys()) if (old < at - STEPS) steps.delete(old);
  const { ok, bad } = step ?? { ok: 0, bad: 0 };
  const isBad = BAD.has(said.outcome ?? "");
  steps.set(at, isBad ? { ok, bad: bad + 1 } : { ok: ok + 1, bad });
});

export function Activity() {
  const now = useNow();
  const [, tick] = useState(0);
  useLive(() => tick((count) => count + 1));
  const isPaused = status.use() === "paused";
  const shownAt = useRef(now);
  if (!isPaused) shownAt.current = now;
  const last = Math.floor(shownAt.current / STEP_MS);
  const shown = Array.from({ length: STEPS }, (_, index) => last - STEPS + 1 + index).map((at) => ({
    at,
    ...(steps.get(at) ?? { ok: 0, bad: 0 }),
  }));
  const most = Math.max(5, ...shown.map((step) => step.ok + step.bad));
  const ok = shown.reduce((sum, step) => sum + step.ok, 0);
  const bad = shown.reduce((sum, step) => sum + step.bad, 0);
  return (
    <div className="px-4 pt-3 pb-2">
      <div
        className="flex h-16 items-end gap-px"
        role="img"
        aria-label={`${ok} succeeded and ${bad} failed in the last 5 minutes`}
      >
        {shown.map((step) => (
          <div
            key={step.at}
            className="flex h-full flex-1 flex-col justify-end"
            title={`${step.ok} succeeded, ${step.bad} failed`}
          >
            <div
              className="rounded-t-[1px] bg-bad"
              style={{ height: `${(step.bad / most) * 100}%` }}
            />
            <div
              className={step.ok > 0 ? "bg-ok opacity-80" : "min-h-px bg-line"}
              style={{ height: `${(step.ok / most) * 100}%` }}
            />
          </div>
        ))}
      </div>
      <div className="mt-1.5 flex justify-between text-faint text-xs">
        <span>5 min ago</span>
        <span className="num flex gap-4">
          <span className="flex items-center gap-1.5">
            <span className="size-2 rounded-sm bg-ok" aria-hidden /> {ok} succeeded
          </span>
          <span className="flex items-center gap-1.5">
            <span className="size-2 rounded-sm bg-bad" aria-hidden /> {bad} failed
          </span>
        </span>
        <span>now</span>
      </div>
    </div>
  );
}
