/** The log of a job, updated live. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { open } from "@/api/client";
import { parse, printShort } from "@/api/json";
import type { Job } from "@/api/schema";
import { read } from "@/live/events";
import { Button } from "@/parts/button";
import { Select } from "@/parts/form";
import { Panel } from "@/parts/page";

interface Line {
  at: string;
  kind: string;
  level: string;
  message: string;
  rest: string;
}

const LEVELS = ["debug", "info", "warning", "error"];
const COLORS: Record<string, string> = {
  error: "text-bad",
  critical: "text-bad",
  warning: "text-warn",
};
const MOST = 5_000;

export function Log({ job }: { job: Job }) {
  const { lines, isOpen } = useLines(job.id, job.attempt);
  const { level = LEVELS[0] } = useSearch({ strict: false }) as { level?: string };
  const navigate = useNavigate();
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const least = LEVELS.indexOf(level ?? "");
  const shown = lines.filter((line) => least <= Math.max(0, LEVELS.indexOf(line.level)));
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown.length, follows]);

  return (
    <Panel
      title={
        <span className="flex items-center gap-2">
          Log
          {isOpen && (
            <span className="rounded-full bg-run-soft px-1.5 font-normal text-run text-xs">
              following
            </span>
          )}
        </span>
      }
      actions={
        <>
          <Select
            aria-label="Minimum level"
            className="!h-7 !w-auto !border-transparent text-muted"
            value={level}
            onChange={(event) => {
              const chosen = event.target.value === LEVELS[0] ? undefined : event.target.value;
              void navigate({
                to: ".",
                search: (old: Record<string, string | undefined>) => ({ ...old, level: chosen }),
                replace: true,
                resetScroll: false,
              });
            }}
          >
            {LEVELS.map((each) => (
              <option key={each} value={each}>
                {each === "error" ? each : `${each} and above`}
              </option>
            ))}
          </Select>
          <Button
            look="quiet"
            icon={Download}
            label="Download log"
            disabled={lines.length === 0}
            onClick={() => save(job.id, lines)}
          />
        </>
      }
    >
      {shown.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          {lines.length > 0
            ? "No log lines at this level."
            : "No log lines. Jobs write them with ctx.log and ctx.progress."}
        </p>
      ) : (
        <div
          ref={box}
          role="log"
          aria-label="Log"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
          tabIndex={0}
          onScroll={(event) => {
            const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
            setFollows(scrollHeight - scrollTop - clientHeight < 24);
          }}
          className="max-h-96 overflow-auto py-2 font-mono text-xs leading-5"
        >
          {shown.map((line, index) => (
            <div key={`${line.at}${index + 1}`} className="flex gap-2 px-4 hover:bg-hover sm:gap-3">
              <time className="shrink-0 text-faint" dateTime={line.at}>
                {line.at.slice(11, 19)}
                <span className="hidden sm:inline">{line.at.slice(19, 23)}</span>
              </time>
              <span className={`w-14 shrink-0 ${COLORS[line.level] ?? "text-faint"}`}>
                {line.level}
              </span>
              <span className="min-w-0 whitespace-pre-wrap break-words">
                {line.message} <span className="text-faint">{line.rest}</span>
              </span>
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}

/** Read the log until the job has finished. Another attempt opens it again. */
function useLines(id: string, attempt: number): { lines: Line[]; isOpen: boolean } {
  const [lines, setLines] = useState<Line[]>([]);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    const found: Line[] = [];
    let lastId: string | null = null;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const show = () => {
      timer = null;
      setLines([...found]);
    };
    async function follow() {
      for (;;) {
        try {
          const answer = await open(
            `/jobs/${id}/logs?follow=true&kind=log&kind=progress&kind=event`,
            lastId,
            abort.signal,
          );
          setOpen(true);
          for await (const event of read(answer)) {
            lastId = event.id ?? lastId;
            if (event.name === "end") return;
            if (event.name === "" || event.name === "cut") continue;
            found.push(lineOf(parse(event.data) as Said));
            if (found.length > MOST) found.shift();
            timer ??= setTimeout(show, 100);
          }
        } catch {
          if (abort.signal.aborted) return;
        }
        await new Promise((wake) => setTimeout(wake, 2_000));
      }
    }
    void follow().finally(() => {
      if (!abort.signal.aborted) {
        show();
        setOpen(false);
      }
    });
    return () => {
      abort.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, [id, attempt]);
  return { lines, isOpen };
}

interface Said {
  at: string;
  kind: string;
  data: unknown;
}

function lineOf(said: Said): Line {
  const data = (said.data ?? {}) as Record<string, unknown>;
  if (said.kind === "progress") {
    const { done, total, message, ...rest } = data;
    const words = [`${done ?? "?"}/${total ?? "?"}`, message]
      .filter((each) => typeof each === "string")
      .join(" ");
    return { at: said.at, kind: said.kind, level: "progress", message: words, rest: restOf(rest) };
  }
  const { message, event, level, ...rest } = data;
  const text = [message, event].find((each) => typeof each === "string") ?? "";
  return {
    at: said.at,
    kind: said.kind,
    level: typeof level === "string" ? level.toLowerCase() : "info",
    message: String(text),
    rest: restOf(rest),
  };
}

function restOf(rest: Record<string, unknown>): string {
  return Object.entries(rest)
    .filter(([name, value]) => value !== null && name !== "lease")
    .map(([name, value]) => `${name}=${printShort(value)}`)
    .join(" ");
}

function save(id: string, lines: Line[]): void {
  const text = lines
    .map((line) => `${line.at} ${line.level} ${line.message} ${line.rest}`.trim())
    .join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = `${id}.log`;
  link.click();
  URL.revokeObjectURL(link.href);
}
