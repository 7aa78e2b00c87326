/** The timeline of a job as one strip to scale: its waits and its attempts. */

import { useQuery } from "@tanstack/react-query";
import { statistics } from "@/api/queries";
import type { Job, JobHistory } from "@/api/schema";
import { rangeOf } from "@/charts/ranges";
import { LOOKS } from "@/jobs/states";
import { Bar } from "@/parts/bar";
import { Panel } from "@/parts/page";
import { duration, formatExact, useNow } from "@/parts/time";
import { useSession } from "@/session";

interface Piece {
  label: string;
  from: number;
  to: number;
  color: string;
  text: string;
}

const WAIT = "bg-[repeating-linear-gradient(135deg,var(--line)_0_3px,transparent_3px_6px)]";
const OUTCOMES: Record<string, string> = {
  succeeded: "bg-ok",
  failed: "bg-bad",
  timed_out: "bg-bad",
  crashed: "bg-bad",
  lease_lost: "bg-bad",
  canceled: "bg-faint",
  released: "bg-faint",
  snoozed: "bg-plan",
};

export function Timeline({ history }: { history: JobHistory }) {
  const now = useNow();
  const pieces = piecesOf(history, now);
  const start = pieces[0]?.from ?? 0;
  const whole = Math.max(1, (pieces.at(-1)?.to ?? 0) - start);
  const progress = progressOf(history);
  const { job } = history;
  return (
    <Panel className="px-4 py-3">
      <div
        className="flex h-3 w-full gap-px overflow-hidden rounded"
        role="img"
        aria-label={pieces.map((each) => each.text).join("; ")}
      >
        {pieces.map((piece) => (
          <div
            key={`${piece.label}${piece.from}`}
            title={piece.text}
            style={{ flexGrow: Math.max(0.015, (piece.to - piece.from) / whole) }}
            className={`min-w-0.5 basis-0 ${piece.color}`}
          />
        ))}
      </div>
      <ol className="mt-2 flex flex-wrap gap-x-5 gap-y-1 text-xs">
        {pieces.map((piece) => (
          <li key={`${piece.label}${piece.from}`} className="flex items-center gap-1.5">
            <span className={`size-2.5 rounded-sm ${piece.color}`} aria-hidden />
            <span className="text-muted">{piece.label}</span>
            <span className="num">{duration(piece.to - piece.from)}</span>
          </li>
        ))}
      </ol>
      {progress && (
        <div className="mt-3 flex items-center gap-3">
          <div className="flex-1">
            <Bar share={progress.share} />
          </div>
          <span className="num text-muted text-xs">{progress.words}</span>
        </div>
      )}
      {job.state === "running" && <Expected job={job} share={progress?.share ?? 0} now={now} />}
    </Panel>
  );
}

const WEEK = rangeOf("7d");

/** The estimated end: from the job's own progress, or else from the run times of its definition. */
function Expected({ job, share, now }: { job: Job; share: number; now: number }) {
  const { may } = useSession();
  const { data } = useQuery({
    ...statistics(WEEK, { definition: job.definition, isWhole: true }),
    enabled: may("statistics", "read"),
    refetchInterval: false,
  });
  const ran = job.started_at ? now - time(job.started_at) : 0;
  const usual = data?.items[0];
  const half = usual?.run_p50_ms ?? null;
  const most = usual?.run_p95_ms ?? null;
  const left = share > 0 ? ran / share - ran : half !== null && half > ran ? half - ran : null;
  const words = [
    left === null ? null : `About ${duration(left)} left.`,
    half === null || most === null
      ? null
      : `Typical run time: ${duration(half)} (p50), ${duration(most)} (p95).`,
    left === null && most !== null && ran > most ? "This job is taking longer." : null,
  ].filter((each) => each !== null);
  if (words.length === 0) return null;
  return <p className="num mt-2 text-muted text-xs">{words.join(" ")}</p>;
}

/** Return the last progress report of a running job. */
function progressOf({ job, events }: JobHistory): { share: number; words: string } | null {
  if (job.state !== "running" && job.state !== "canceling") return null;
  const said = events.findLast((each) => each.kind === "progress")?.data as
    | { done?: number; total?: number; message?: string }
    | undefined;
  if (!said?.total) return null;
  const done = said.done ?? 0;
  return { share: Math.min(1, done / said.total), words: `${done} of ${said.total}` };
}

function piecesOf({ job, attempts }: JobHistory, now: number): Piece[] {
  const pieces: Piece[] = [];
  let at = time(job.created_at);
  const add = (label: string, to: number, color: string) => {
    if (to <= at && color === WAIT) return;
    const text = `${label}: ${duration(Math.max(0, to - at))}, until ${formatExact(new Date(to).toISOString()).split("\n")[0]}`;
    pieces.push({ label, from: at, to: Math.max(to, at), color, text });
    at = Math.max(to, at);
  };
  attempts.forEach((attempt, index) => {
    if (attempt.queued_at && time(attempt.queued_at) > at) {
      add(delayBefore(attempts, index), time(attempt.queued_at), WAIT);
    }
    add("queued", time(attempt.started_at), WAIT);
    const outcome = attempt.outcome;
    const label = outcome
      ? `attempt ${attempt.attempt} ${LOOKS[outcome]?.label.toLowerCase() ?? outcome}`
      : `attempt ${attempt.attempt} running`;
    add(
      label,
      attempt.ended_at ? time(attempt.ended_at) : now,
      outcome ? (OUTCOMES[outcome] ?? "bg-faint") : "bg-run",
    );
  });
  const isOver = job.finished_at !== null;
  if (!isOver && attempts.at(-1)?.ended_at !== null)
    add(job.state === "scheduled" ? "scheduled" : job.state, now, WAIT);
  if (isOver && attempts.length === 0) add("waited", time(job.finished_at ?? job.created_at), WAIT);
  return pieces;
}

/** The name of the delay before an attempt, by the outcome of the previous one. */
function delayBefore(attempts: JobHistory["attempts"], index: number): string {
  if (index === 0) return "scheduled";
  return attempts[index - 1]?.outcome === "snoozed" ? "snoozed" : "backoff";
}

function time(at: string): number {
  return new Date(at).getTime();
}
