/** Bulk actions on the selected jobs, or on all jobs that match the filter. */

import { useQuery } from "@tanstack/react-query";
import { Ban, ListChecks, RotateCcw, X } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { isOver, operation } from "@/api/queries";
import type { OperationKind } from "@/api/schema";
import { formatFilter, type JobFilter, toOperationFilter } from "@/jobs/filter";
import { Bar } from "@/parts/bar";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Field, Input } from "@/parts/form";
import { plural } from "@/parts/plural";
import { toast } from "@/parts/toasts";

const AT_ONCE = 6;
const TYPED_ABOVE = 100;

interface Props {
  selected: Set<string>;
  filter: JobFilter;
  isAll: boolean;
  onAll: (isAll: boolean) => void;
  onClear: () => void;
  onDone: () => void;
}

export function BulkBar({ selected, filter, isAll, onAll, onClear, onDone }: Props) {
  const [kind, setKind] = useState<"cancel" | "retry" | null>(null);
  return (
    <section
      aria-label="Selected jobs"
      className="sticky bottom-4 z-20 mx-auto flex flex-wrap items-center gap-2 rounded-xl border border-strong bg-surface px-3 py-2 shadow-float"
    >
      <span className="font-medium">
        {isAll ? "All matching jobs" : `${selected.size} selected`}
      </span>
      {!isAll && (
        <Button look="quiet" icon={ListChecks} onClick={() => onAll(true)}>
          Select all matching jobs
        </Button>
      )}
      <Button icon={RotateCcw} onClick={() => setKind("retry")}>
        Retry…
      </Button>
      <Button look="danger" icon={Ban} onClick={() => setKind("cancel")}>
        Cancel…
      </Button>
      <Button look="quiet" icon={X} label="Clear selection" onClick={onClear} />
      {kind !== null && isAll && (
        <MatchingDialog kind={kind} filter={filter} onClose={() => setKind(null)} onDone={onDone} />
      )}
      {kind !== null && !isAll && (
        <SelectedJobsDialog
          kind={kind}
          ids={[...selected]}
          onClose={() => setKind(null)}
          onDone={onDone}
        />
      )}
    </section>
  );
}

function MatchingDialog({
  kind,
  filter,
  onClose,
  onDone,
}: {
  kind: Exclude<OperationKind, "erase">;
  filter: JobFilter;
  onClose: () => void;
  onDone: () => void;
}) {
  const [reason, setReason] = useState("");
  const count = useQuery({
    queryKey: ["count", kind, filter],
    queryFn: () =>
      call("post", "/api/v1/operations/count", {
        body: { kind, filter: toOperationFilter(filter) },
      }),
    staleTime: 0,
    gcTime: 0,
  });
  const jobs = count.data?.jobs;
  const verb = kind === "cancel" ? "Cancel" : "Retry";
  const formatted = formatFilter(filter);
  const shown =
    jobs === undefined
      ? "… jobs"
      : plural(jobs >= 100_000 ? "100,000 or more" : jobs.toLocaleString("en"), "job");
  return (
    <Confirm
      title={`${verb} all matching jobs`}
      verb={`${verb} ${shown}`}
      dismiss={kind === "cancel" ? "Keep jobs" : undefined}
      isDangerous={kind === "cancel"}
      isReady={jobs !== undefined && jobs > 0}
      typed={jobs !== undefined && jobs > TYPED_ABOVE ? String(jobs) : undefined}
      onClose={onClose}
      act={async () => {
        const { id } = await call("post", "/api/v1/operations", {
          body: { kind, filter: toOperationFilter(filter), reason: reason || null },
        });
        toast(<OperationProgress id={id} onOver={onDone} />, { lastsMs: 60_000 });
        onDone();
      }}
    >
      <p>
        <strong className="num">{shown}</strong>{" "}
        {formatted !== "" && (
          <>
            that match <code className="rounded bg-raised px-1 font-mono text-xs">
              {formatted}
            </code>{" "}
          </>
        )}
        can be {kind === "cancel" ? "canceled" : "retried"}. The operation runs in the background;
        you can stop it on the Operations page.
      </p>
      <Field label="Reason">
        {(id) => (
          <Input id={id} value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}

function SelectedJobsDialog({
  kind,
  ids,
  onClose,
  onDone,
}: {
  kind: "cancel" | "retry";
  ids: string[];
  onClose: () => void;
  onDone: () => void;
}) {
  const [verb, past] = kind === "cancel" ? ["Cancel", "canceled"] : ["Retry", "retried"];
  const title = `${verb} ${plural(ids.length, "job")}`;
  return (
    <Confirm
      title={title}
      verb={title}
      dismiss={kind === "cancel" ? (ids.length === 1 ? "Keep job" : "Keep jobs") : undefined}
      isDangerous={kind === "cancel"}
      typed={ids.length > TYPED_ABOVE ? String(ids.length) : undefined}
      onClose={onClose}
      act={async () => {
        const { done, refused } = await each(ids, (id) =>
          kind === "cancel"
            ? call("post", "/api/v1/jobs/{job_id}/cancel", { path: { job_id: id } })
            : call("post", "/api/v1/jobs/{job_id}/retry", { path: { job_id: id } }),
        );
        toast(`${done} ${past}${refused ? `, ${refused} could not be ${past}` : ""}.`);
        onDone();
      }}
    >
      <p className="text-muted">
        {kind === "cancel"
          ? "Waiting jobs will not run, running jobs are asked to stop, and dead jobs are discarded. Other finished jobs are unchanged."
          : "Dead jobs are queued again. Other finished jobs are enqueued as new jobs. Jobs that have not finished are unchanged."}
      </p>
    </Confirm>
  );
}

async function each(ids: string[], act: (id: string) => Promise<unknown>) {
  const waiting = [...ids];
  let done = 0;
  let refused = 0;
  async function work() {
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      await act(id).then(
        () => {
          done += 1;
        },
        () => {
          refused += 1;
        },
      );
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done, refused };
}

/** The progress of a bulk operation, for toasts and lists. */
export function OperationProgress({ id, onOver }: { id: string; onOver?: () => void }) {
  const { data } = useQuery(operation(id));
  const [isTold, setTold] = useState(false);
  if (data && isOver(data.state) && !isTold) {
    setTold(true);
    if (onOver) setTimeout(onOver);
  }
  if (!data) return <span>Starting…</span>;
  const share = data.matched > 0 ? Math.min(1, (data.done + data.skipped) / data.matched) : 1;
  return (
    <div className="flex flex-col gap-1.5">
      <div className="flex justify-between gap-3">
        <span className="font-medium">{operationWords(data)}</span>
        <span className="num text-muted">
          {data.done.toLocaleString("en")} of {data.matched.toLocaleString("en")}
        </span>
      </div>
      <Bar share={share} isBad={data.state === "failed"} />
      {data.reason && data.state === "failed" && <p className="text-bad">{data.reason}</p>}
    </div>
  );
}

const KINDS: Record<OperationKind, string> = {
  cancel: "Cancel jobs",
  retry: "Retry jobs",
  redrive: "Redrive",
  discard: "Discard jobs",
  erase: "Erase tenant",
};

export function operationWords({ kind, state }: { kind: OperationKind; state: string }): string {
  return `${KINDS[kind]}: ${progressWords(kind, state)}`;
}

function progressWords(kind: OperationKind, state: string): string {
  if (state === "waiting") return kind === "redrive" ? "waiting for its canary jobs" : "waiting";
  if (state === "failed") return kind === "redrive" ? "stopped by its canary jobs" : "failed";
  if (state === "canceled") return "stopped";
  return state === "done" ? "done" : "running";
}
