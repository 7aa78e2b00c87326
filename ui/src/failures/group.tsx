/** A failure group: the error, the number of jobs, the time range, and the actions. */

import { Link } from "@tanstack/react-router";
import { BellOff, ChevronDown, ChevronRight, Pencil, RotateCcw, Trash2 } from "lucide-react";
import { useState } from "react";
import { client } from "@/api/queries";
import type { FailureGroup } from "@/api/schema";
import { Discard, Note, Redrive, saveNote } from "@/failures/dialogs";
import { OperationProgress } from "@/jobs/bulk";
import { errorLine } from "@/jobs/columns";
import { short } from "@/jobs/short-count";
import { Button } from "@/parts/button";
import { Id } from "@/parts/copy";
import { Menu } from "@/parts/menu";
import { Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { Sparkline } from "@/parts/sparkline";
import { Ago } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";

interface GroupProps {
  group: FailureGroup;
  isOpen: boolean;
  onToggle: () => void;
}

export function Group({ group, isOpen, onToggle }: GroupProps) {
  return (
    <>
      <GroupHeader group={group} isOpen={isOpen} onToggle={onToggle} />
      {isOpen && <Body group={group} />}
    </>
  );
}

function GroupHeader({ group, isOpen, onToggle }: GroupProps) {
  const Icon = isOpen ? ChevronDown : ChevronRight;
  const error = (group.error ?? {}) as { type?: string; message?: string };
  return (
    <button
      type="button"
      aria-expanded={isOpen}
      onClick={onToggle}
      className="flex w-full items-start gap-2 px-4 sm:gap-3 py-2.5 text-left hover:bg-hover"
    >
      <Icon size={14} className="mt-1 shrink-0 text-faint" aria-hidden />
      <span className="num min-w-6 shrink-0 text-right sm:w-9 font-semibold text-base text-bad">
        {group.jobs >= 10_000 ? "10k+" : short(group.jobs)}
      </span>
      <span className="flex min-w-0 flex-1 flex-col">
        <span className="flex min-w-0 items-center gap-2">
          <span className="truncate">
            <span className="font-semibold">{error.type ?? "Unknown error"}</span>
            <span className="text-muted"> in {group.definition}</span>
            <span className="text-faint" title="Versions that failed with this error">
              @{group.versions.join(", @")}
            </span>
          </span>
          <GroupBadge group={group} />
        </span>
        <span className="truncate text-muted" title={error.message}>
          {error.message ?? errorLine(group.error)}
        </span>
        {group.note && <span className="truncate text-plan">{group.note}</span>}
      </span>
      <span className="hidden shrink-0 self-center md:block">
        <Sparkline
          values={group.hourly}
          label={`${plural(countRecent(group), "dead job")} in the last 24 hours`}
          color="text-bad"
        />
      </span>
      <span className="hidden w-24 shrink-0 flex-col text-right text-faint text-xs sm:flex">
        <span>
          last <Ago at={group.last_seen} />
        </span>
        <span>
          first <Ago at={group.first_seen} />
        </span>
      </span>
    </button>
  );
}

function countRecent(group: FailureGroup): number {
  return group.hourly.reduce((sum, each) => sum + each, 0);
}

const DAY_MS = 86_400_000;

/** The most important fact about the group. */
function GroupBadge({ group }: { group: FailureGroup }) {
  if (group.has_recurred) {
    return (
      <span
        className="shrink-0 rounded bg-bad-soft px-1.5 font-medium text-bad text-xs"
        title={`Marked as fixed in build ${group.resolved_in}, but recurred in build ${group.build}.`}
      >
        Recurred
      </span>
    );
  }
  if (new Date(group.first_seen).getTime() < Date.now() - DAY_MS) return null;
  return (
    <span
      className="shrink-0 rounded bg-accent-soft px-1.5 font-medium text-accent text-xs"
      title="First seen in the last 24 hours."
    >
      New
    </span>
  );
}

type Open = "redrive" | "discard" | "note" | null;

function Body({ group }: { group: FailureGroup }) {
  const { may } = useSession();
  const [open, setOpen] = useState<Open>(null);
  const [running, setRunning] = useState<string | null>(null);
  const canAct = may("failures", "write");
  const error = (group.error ?? {}) as { traceback?: unknown; stack?: unknown };
  const trace = [error.stack, error.traceback].find((each) => typeof each === "string") as
    | string
    | undefined;

  function started(id: string) {
    setRunning(id);
    void client.invalidateQueries({ queryKey: ["failures"] });
  }
  async function snooze(hours: number) {
    const until = hours > 0 ? new Date(Date.now() + hours * 3_600_000).toISOString() : null;
    try {
      await saveNote(group, { snoozed_until: until });
      toast(until ? "Group snoozed." : "Snooze ended.");
    } catch (caught) {
      toastError(caught);
    }
  }

  return (
    <div className="flex flex-col gap-3 border-line border-t bg-bg px-4 py-3 sm:pl-[5.5rem]">
      <div className="flex flex-wrap items-center gap-2">
        {canAct && (
          <>
            <Button look="primary" icon={RotateCcw} onClick={() => setOpen("redrive")}>
              Redrive…
            </Button>
            <Button icon={Pencil} onClick={() => setOpen("note")}>
              {group.note ? "Edit note" : "Add note"}
            </Button>
            <Menu
              label="Snooze"
              trigger={(props) => (
                <Button icon={BellOff} {...props}>
                  Snooze
                </Button>
              )}
              items={[
                { label: "For 1 hour", act: () => void snooze(1) },
                { label: "For 1 day", act: () => void snooze(24) },
                { label: "For 1 week", act: () => void snooze(168) },
                ...(group.snoozed_until
                  ? [{ label: "End snooze", act: () => void snooze(0) }]
                  : []),
              ]}
            />
            <Button look="danger" icon={Trash2} onClick={() => setOpen("discard")}>
              Discard…
            </Button>
          </>
        )}
        <span className="flex gap-4 text-muted sm:ml-auto">
          <Link
            to="/jobs/$id"
            params={{ id: group.sample_job_id }}
            className="text-accent hover:underline"
          >
            Newest job: <Id id={group.sample_job_id} />
          </Link>
          <Link
            to="/jobs"
            search={{ state: "dead", fingerprint: group.fingerprint }}
            className="text-accent hover:underline"
          >
            All jobs
          </Link>
        </span>
      </div>
      {running && (
        <Panel className="max-w-md p-3">
          <OperationProgress
            id={running}
            onOver={() => void client.invalidateQueries({ queryKey: ["failures"] })}
          />
        </Panel>
      )}
      {group.note && (
        <p className="whitespace-pre-wrap rounded-md bg-surface px-3 py-2">{group.note}</p>
      )}
      {group.resolved_in && (
        <p className={group.has_recurred ? "text-bad" : "text-muted"}>
          Fixed in build {group.resolved_in}
          {group.has_recurred ? `, but recurred in build ${group.build}.` : "."}
        </p>
      )}
      {group.snoozed_until && (
        <p className="text-muted">
          Snoozed; reappears <Ago at={group.snoozed_until} />.
        </p>
      )}
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
        tabIndex={0}
        className="max-h-72 overflow-auto rounded-md border border-line bg-surface p-3 font-mono text-xs leading-5"
      >
        {trace ?? errorLine(group.error)}
      </pre>
      {open === "redrive" && (
        <Redrive group={group} onClose={() => setOpen(null)} onStarted={started} />
      )}
      {open === "discard" && (
        <Discard group={group} onClose={() => setOpen(null)} onStarted={started} />
      )}
      {open === "note" && <Note group={group} onClose={() => setOpen(null)} />}
    </div>
  );
}
