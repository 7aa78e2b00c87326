/** Dead jobs by what they died of: look at one, mend it, run one again, then all. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import {
  BellOff,
  ChevronDown,
  ChevronRight,
  CircleCheck,
  Pencil,
  RotateCcw,
  Trash2,
} from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, failures } from "@/api/queries";
import type { FailureGroup } from "@/api/schema";
import { OperationProgress } from "@/jobs/bulk";
import { errorLine } from "@/jobs/columns";
import { short } from "@/jobs/counts";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Id } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Area, Field, Input } from "@/parts/form";
import { Menu } from "@/parts/menu";
import { Page as Frame, Panel } from "@/parts/page";
import { Sparkline } from "@/parts/sparkline";
import { Ago } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { usePlace } from "@/shell/keyboard";

export function Page() {
  const query = useQuery(failures());
  const now = Date.now();
  const groups = query.data?.items ?? [];
  const placeOf = (group: FailureGroup) => {
    if (group.is_back) return "loud";
    if (group.snoozed_until && new Date(group.snoozed_until).getTime() > now) return "snoozed";
    return group.resolved_in === null ? "loud" : "mended";
  };
  const placed = (place: string) => groups.filter((group) => placeOf(group) === place);
  const [loud, snoozed, mended] = [placed("loud"), placed("snoozed"), placed("mended")];
  return (
    <Frame
      title="Failures"
      lead="Dead jobs, grouped by what they died of. Each waits until somebody decides."
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : groups.length === 0 ? (
        <Empty title="Nothing is dead">
          A job that has used up its attempts, or that raised{" "}
          <code className="font-mono">Dead</code>, comes here with all others that died of the same.
        </Empty>
      ) : (
        <>
          {loud.length > 0 && <Groups groups={loud} />}
          {snoozed.length > 0 && (
            <>
              <h2 className="flex items-center gap-2 font-semibold text-muted">
                <BellOff size={14} aria-hidden /> Snoozed
              </h2>
              <Groups groups={snoozed} />
            </>
          )}
          {mended.length > 0 && (
            <>
              <h2 className="flex items-center gap-2 font-semibold text-muted">
                <CircleCheck size={14} aria-hidden /> Mended, until one dies on that build or a
                later one
              </h2>
              <Groups groups={mended} />
            </>
          )}
        </>
      )}
    </Frame>
  );
}

function Groups({ groups }: { groups: FailureGroup[] }) {
  const { group: open } = useSearch({ strict: false }) as { group?: string };
  const navigate = useNavigate();
  const toggle = (group: FailureGroup) =>
    void navigate({
      to: "/failures",
      search: { group: open === group.fingerprint ? undefined : group.fingerprint },
      replace: true,
      resetScroll: false,
    });
  const [at, box] = usePlace<HTMLUListElement>(groups.length, (place) => {
    const group = groups[place];
    if (group) toggle(group);
  });
  return (
    <Panel className="overflow-hidden">
      <ul ref={box}>
        {groups.map((group, index) => {
          const isOpen = open === group.fingerprint;
          return (
            <li
              key={group.fingerprint}
              className={`border-line border-b last:border-0 ${index === at ? "bg-hover shadow-[inset_2px_0_0_var(--accent)]" : ""}`}
            >
              <Head group={group} isOpen={isOpen} onToggle={() => toggle(group)} />
              {isOpen && <Body group={group} />}
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

function Head({
  group,
  isOpen,
  onToggle,
}: {
  group: FailureGroup;
  isOpen: boolean;
  onToggle: () => void;
}) {
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
            <span className="text-faint" title="the versions that died of it">
              @{group.versions.join(", @")}
            </span>
          </span>
          <Mark group={group} />
        </span>
        <span className="truncate text-muted" title={error.message}>
          {error.message ?? errorLine(group.error)}
        </span>
        {group.note && <span className="truncate text-plan">{group.note}</span>}
      </span>
      <span className="hidden shrink-0 self-center md:block">
        <Sparkline
          values={group.hourly}
          label={`${lately(group)} died in the last 24 hours`}
          colour="text-bad"
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

function lately(group: FailureGroup): number {
  return group.hourly.reduce((sum, each) => sum + each, 0);
}

const DAY_MS = 86_400_000;

/** What one would want to know before anything else. */
function Mark({ group }: { group: FailureGroup }) {
  if (group.is_back) {
    return (
      <span
        className="shrink-0 rounded bg-bad-soft px-1.5 font-medium text-bad text-xs"
        title={`It was mended in build ${group.resolved_in}, and died again on ${group.build}.`}
      >
        Back
      </span>
    );
  }
  if (new Date(group.first_seen).getTime() < Date.now() - DAY_MS) return null;
  return (
    <span
      className="shrink-0 rounded bg-accent-soft px-1.5 font-medium text-accent text-xs"
      title="The first of those that are dead died within the last day."
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
      await annotate(group, { snoozed_until: until });
      toast(until ? "Silent until then." : "No longer snoozed.");
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
              Run again…
            </Button>
            <Button icon={Pencil} onClick={() => setOpen("note")}>
              {group.note ? "Edit the note" : "Note"}
            </Button>
            <Menu
              label="Snooze"
              trigger={(props) => (
                <Button icon={BellOff} {...props}>
                  Snooze
                </Button>
              )}
              items={[
                { label: "For an hour", act: () => void snooze(1) },
                { label: "For a day", act: () => void snooze(24) },
                { label: "For a week", act: () => void snooze(168) },
                ...(group.snoozed_until ? [{ label: "No longer", act: () => void snooze(0) }] : []),
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
            Newest: <Id id={group.sample_job_id} />
          </Link>
          <Link
            to="/jobs"
            search={{ state: "dead", fingerprint: group.fingerprint }}
            className="text-accent hover:underline"
          >
            All of them
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
        <p className={group.is_back ? "text-bad" : "text-muted"}>
          Mended in build {group.resolved_in}
          {group.is_back ? `, but died again on build ${group.build}.` : "."}
        </p>
      )}
      {group.snoozed_until && (
        <p className="text-muted">
          Snoozed; comes back <Ago at={group.snoozed_until} />.
        </p>
      )}
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
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

interface DialogProps {
  group: FailureGroup;
  onClose: () => void;
  onStarted: (id: string) => void;
}

function Redrive({ group, onClose, onStarted }: DialogProps) {
  const [canary, setCanary] = useState("1");
  const [rate, setRate] = useState("10");
  return (
    <Confirm
      title={`Run ${short(group.jobs)} dead jobs again`}
      verb="Start"
      onClose={onClose}
      act={async () => {
        const { id } = await call("post", "/api/v1/failures/{fingerprint}/redrive", {
          path: { fingerprint: group.fingerprint },
          body: {
            canary: canary === "" ? null : Number(canary),
            rate: rate === "" ? null : Number(rate),
          },
        });
        onStarted(id);
      }}
    >
      <p className="text-muted">
        The canaries run first. When they end well, all others follow; when one of them dies again,
        none of the others is touched.
      </p>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Canaries" hint="Empty: none, all at once.">
          {(id) => (
            <Input
              id={id}
              type="number"
              min={1}
              max={1000}
              value={canary}
              onChange={(event) => setCanary(event.target.value)}
            />
          )}
        </Field>
        <Field label="Jobs per second" hint="Empty: as fast as it goes.">
          {(id) => (
            <Input
              id={id}
              type="number"
              min={0.01}
              step="any"
              value={rate}
              onChange={(event) => setRate(event.target.value)}
            />
          )}
        </Field>
      </div>
    </Confirm>
  );
}

function Discard({ group, onClose, onStarted }: DialogProps) {
  const [reason, setReason] = useState("");
  return (
    <Confirm
      title={`Discard ${short(group.jobs)} dead jobs`}
      verb={`Discard ${short(group.jobs)} jobs`}
      isDangerous
      typed={group.jobs > 100 ? String(group.jobs) : undefined}
      onClose={onClose}
      act={async () => {
        const { id } = await call("post", "/api/v1/failures/{fingerprint}/discard", {
          path: { fingerprint: group.fingerprint },
          body: { reason: reason || null },
        });
        onStarted(id);
      }}
    >
      <p className="text-muted">
        They end as canceled and stay in the history. It cannot be undone.
      </p>
      <Field label="Reason" hint="Goes into the audit log.">
        {(id) => (
          <Input id={id} value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}

function Note({ group, onClose }: { group: FailureGroup; onClose: () => void }) {
  const [note, setNote] = useState(group.note ?? "");
  const [build, setBuild] = useState(group.resolved_in ?? "");
  return (
    <Confirm
      title="What is known of it"
      verb="Save"
      onClose={onClose}
      act={() => annotate(group, { note: note || null, resolved_in: build || null })}
    >
      <Field label="Note" hint="For whoever looks at this next.">
        {(id) => (
          <Area id={id} rows={4} value={note} onChange={(event) => setNote(event.target.value)} />
        )}
      </Field>
      <Field
        label="Mended in build"
        hint="As workers name it. The group stands aside until one dies on it or a later one."
      >
        {(id) => <Input id={id} value={build} onChange={(event) => setBuild(event.target.value)} />}
      </Field>
    </Confirm>
  );
}

async function annotate(
  group: FailureGroup,
  body: { note?: string | null; snoozed_until?: string | null; resolved_in?: string | null },
) {
  await call("patch", "/api/v1/failures/{fingerprint}", {
    path: { fingerprint: group.fingerprint },
    body,
  });
  await client.invalidateQueries({ queryKey: ["failures"] });
}
