/** The attempts of a job, the latest one expanded: error, worker, and resource usage. */

import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import { print } from "@/api/json";
import type { Attempt, JobHistory } from "@/api/schema";
import { errorLine } from "@/jobs/columns";
import { difference } from "@/jobs/diff";
import { Button } from "@/parts/button";
import { CopyButton, Id } from "@/parts/copy";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago, Span } from "@/parts/time";

export function Attempts({ history }: { history: JobHistory }) {
  const attempts = [...history.attempts].reverse();
  return (
    <Panel title={<span id="attempts">Attempts</span>}>
      {attempts.length === 0 ? (
        <p className="px-4 py-3 text-muted">No attempts yet: no worker has claimed this job.</p>
      ) : (
        <ol>
          {attempts.map((attempt, index) => (
            <AttemptItem
              key={attempt.lease}
              attempt={attempt}
              earlier={attempts.slice(index + 1).find((each) => each.error !== null)}
              isFirst={index === 0}
            />
          ))}
        </ol>
      )}
    </Panel>
  );
}

interface OneProps {
  attempt: Attempt;
  /** The previous attempt that also failed. */
  earlier: Attempt | undefined;
  isFirst: boolean;
}

function AttemptItem({ attempt, earlier, isFirst }: OneProps) {
  const hasMore = attempt.error !== null || attempt.stdout_tail || attempt.stderr_tail;
  const [isOpen, setOpen] = useState(isFirst && attempt.error !== null);
  const Icon = isOpen ? ChevronDown : ChevronRight;
  return (
    <li className="border-line border-b last:border-0">
      <button
        type="button"
        disabled={!hasMore}
        aria-expanded={hasMore ? isOpen : undefined}
        onClick={() => setOpen(!isOpen)}
        className="flex w-full flex-wrap items-center gap-x-4 gap-y-1 px-4 py-2 text-left enabled:hover:bg-hover"
      >
        <span className="flex items-center gap-2">
          {hasMore ? (
            <Icon size={13} className="text-faint" aria-hidden />
          ) : (
            <span className="w-[13px]" />
          )}
          <span className="num w-4 text-faint">{attempt.attempt}</span>
          <span className="w-24">
            <State name={attempt.outcome ?? "running"} />
          </span>
        </span>
        <span className="text-muted">
          <Span from={attempt.started_at} to={attempt.ended_at} />
        </span>
        <span className="min-w-0 flex-1 truncate text-bad">
          {attempt.error ? errorLine(attempt.error) : ""}
        </span>
        <span className="flex items-center gap-3 text-faint text-xs">
          {attempt.cpu_ms !== null && (
            <span className="num" title="CPU time">
              {attempt.cpu_ms} ms CPU
            </span>
          )}
          {attempt.peak_memory_bytes !== null && (
            <span className="num" title="Peak memory">
              {Math.round(attempt.peak_memory_bytes / 1_048_576)} MiB
            </span>
          )}
          {attempt.exit_code !== null && <span className="num">exit {attempt.exit_code}</span>}
          <span title={`Worker ${attempt.worker_id}${attempt.pid ? `, PID ${attempt.pid}` : ""}`}>
            <Id id={attempt.worker_id} />
          </span>
          <Ago at={attempt.started_at} />
        </span>
      </button>
      {isOpen && <Details attempt={attempt} earlier={earlier} />}
    </li>
  );
}

function Details({ attempt, earlier }: { attempt: Attempt; earlier: Attempt | undefined }) {
  const { type, message, trace, rest } = partsOf(attempt);
  return (
    <div className="flex flex-col gap-3 px-4 pb-4">
      {(typeof type === "string" || typeof message === "string") && (
        <p className="break-words font-mono text-bad text-xs">
          {typeof type === "string" && <strong>{type}</strong>}
          {typeof type === "string" && message ? ": " : ""}
          {typeof message === "string" ? message : ""}
        </p>
      )}
      {attempt.error !== null && earlier && <ErrorComparison attempt={attempt} earlier={earlier} />}
      {trace && <Tail title="Stack trace" text={trace} />}
      {!trace && Object.keys(rest).length > 0 && <Tail title="Error" text={print(rest)} />}
      {attempt.stderr_tail && <Tail title="stderr" text={attempt.stderr_tail} />}
      {attempt.stdout_tail && <Tail title="stdout" text={attempt.stdout_tail} />}
    </div>
  );
}

function partsOf(attempt: Attempt) {
  const error = (attempt.error ?? {}) as Record<string, unknown>;
  const { stack, traceback, type, message, ...rest } = error;
  const trace = [stack, traceback].find((each) => typeof each === "string") as string | undefined;
  return { type, message, trace, rest };
}

function textOf(attempt: Attempt): string {
  const { trace, rest } = partsOf(attempt);
  return [errorLine(attempt.error), trace ?? print(rest)].join("\n");
}

const COLORS = { same: "text-muted", gone: "bg-bad-soft text-bad", new: "bg-ok-soft text-ok" };
const SIGNS = { same: " ", gone: "-", new: "+" };

/** Shows whether the error is that of the previous failed attempt, and the difference otherwise. */
function ErrorComparison({ attempt, earlier }: { attempt: Attempt; earlier: Attempt }) {
  const [isShown, setShown] = useState(false);
  const [before, after] = [textOf(earlier), textOf(attempt)];
  if (before === after) {
    return <p className="text-muted">Same error as in attempt {earlier.attempt}.</p>;
  }
  return (
    <div>
      <Button onClick={() => setShown(!isShown)} aria-expanded={isShown}>
        Compare with attempt {earlier.attempt}
      </Button>
      {isShown && (
        <pre
          // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
          tabIndex={0}
          role="region"
          aria-label="Differences"
          className="mt-2 max-h-80 overflow-auto rounded-md bg-raised py-2 font-mono text-xs leading-5"
        >
          {difference(before, after).map((line, index) => (
            <span key={index} className={`block min-w-max px-3 ${COLORS[line.kind]}`}>
              {SIGNS[line.kind]} {line.text}
            </span>
          ))}
        </pre>
      )}
    </div>
  );
}

function Tail({ title, text }: { title: string; text: string }) {
  return (
    <div className="relative">
      <h3 className="mb-1 text-faint text-xs">{title}</h3>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
        tabIndex={0}
        className="max-h-80 overflow-auto rounded-md bg-raised p-3 font-mono text-xs leading-5"
      >
        {text}
      </pre>
      <span className="absolute top-7 right-1.5 rounded-md bg-raised">
        <CopyButton text={text} />
      </span>
    </div>
  );
}
