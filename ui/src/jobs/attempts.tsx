/** Every try of a job, the newest open: what it died of, where it ran, what it cost. */

import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import { print } from "@/api/json";
import type { Attempt, JobHistory } from "@/api/schema";
import { errorLine } from "@/jobs/columns";
import { CopyButton, Id } from "@/parts/copy";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago, Span } from "@/parts/time";

export function Attempts({ history }: { history: JobHistory }) {
  const attempts = [...history.attempts].reverse();
  return (
    <Panel title={<span id="attempts">Attempts</span>}>
      {attempts.length === 0 ? (
        <p className="px-4 py-3 text-muted">None yet: no worker has taken it.</p>
      ) : (
        <ol>
          {attempts.map((attempt, index) => (
            <One key={attempt.lease} attempt={attempt} isFirst={index === 0} />
          ))}
        </ol>
      )}
    </Panel>
  );
}

function One({ attempt, isFirst }: { attempt: Attempt; isFirst: boolean }) {
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
            <span className="num" title="peak memory">
              {Math.round(attempt.peak_memory_bytes / 1_048_576)} MiB
            </span>
          )}
          {attempt.exit_code !== null && <span className="num">exit {attempt.exit_code}</span>}
          <span title={`worker ${attempt.worker_id}${attempt.pid ? `, pid ${attempt.pid}` : ""}`}>
            <Id id={attempt.worker_id} />
          </span>
          <Ago at={attempt.started_at} />
        </span>
      </button>
      {isOpen && <Details attempt={attempt} />}
    </li>
  );
}

function Details({ attempt }: { attempt: Attempt }) {
  const error = (attempt.error ?? {}) as Record<string, unknown>;
  const { stack, traceback, type, message, ...rest } = error;
  const trace = [stack, traceback].find((each) => typeof each === "string") as string | undefined;
  return (
    <div className="flex flex-col gap-3 px-4 pb-4">
      {(typeof type === "string" || typeof message === "string") && (
        <p className="break-words font-mono text-bad text-xs">
          {typeof type === "string" && <strong>{type}</strong>}
          {typeof type === "string" && message ? ": " : ""}
          {typeof message === "string" ? message : ""}
        </p>
      )}
      {trace && <Tail title="Stack" text={trace} />}
      {!trace && Object.keys(rest).length > 0 && <Tail title="Error" text={print(rest)} />}
      {attempt.stderr_tail && <Tail title="stderr" text={attempt.stderr_tail} />}
      {attempt.stdout_tail && <Tail title="stdout" text={attempt.stdout_tail} />}
    </div>
  );
}

function Tail({ title, text }: { title: string; text: string }) {
  return (
    <div className="relative">
      <h3 className="mb-1 text-faint text-xs">{title}</h3>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
        tabIndex={0}
        className="max-h-80 overflow-auto rounded-md bg-raised p-3 font-mono text-xs leading-5"
      >
        {text}
      </pre>
      <span className="absolute top-6 right-1">
        <CopyButton text={text} />
      </span>
    </div>
  );
}
