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
      aria-label="Chosen jobs"
      className="sticky bottom-4 z-20 mx-auto flex flex-wrap items-center gap-2 rounded-xl border border-strong bg-surface px-3 py-2 shadow-float"
    >
      <span className="font-medium">{isAll ? "All that match" : `${selected.size} chosen`}</span>
      {!isAll && (
        <Button look="quiet" icon={ListChecks} onClick={() => onAll(true)}>
          Choose all that match
        </Button>
      )}
      <Button icon={RotateCcw} onClick={() => setKind("retry")}>
        Retry…
      </Button>
      <Button look="danger" icon={Ban} onClick={() => setKind("cancel")}>
        Cancel…
      </Button>
      <Button look="quiet" icon={X} label="Clear the choice" onClick={onClear} />
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
  const shown =
    jobs === undefined ? "…" : jobs >= 100_000 ? "100,000 or more" : jobs.toLocaleString("en");
  return (
    <Confirm
      title={`${verb} all that match`}
      verb={`${verb} ${shown} jobs`}
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
        Of{" "}
        <code className="rounded bg-raised px-1 font-mono text-xs">
          {formatFilter(filter) || "all jobs"}
        </code>{" "}
        <strong className="num">{shown}</strong> can be {kind === "cancel" ? "canceled" : "retried"}
        . It is done in the background; you can stop it under Operations.
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
  const verb = kind === "cancel" ? "Cancel" : "Retry";
  return (
    <Confirm
      title={`${verb} ${ids.length} jobs`}
      verb={`${verb} ${ids.length} jobs`}
      isDangerous={kind === "cancel"}
      typed={ids.length > TYPED_ABOVE ? String(ids.length) : undefined}
      onClose={onClose}
      act={async () => {
        const { done, refused } = await each(ids, (id) =>
          kind === "cancel"
            ? call("post", "/api/v1/jobs/{job_id}/cancel", { path: { job_id: id } })
            : call("post", "/api/v1/jobs/{job_id}/retry", { path: { job_id: id } }),
        );
        toast(`${done} done${refused ? `, ${refused} were in no state for it` : ""}.`);
        onDone();
      }}
    >
      <p className="text-muted">
        {kind === "cancel"
          ? "Those that wait will not run; those that run are asked to stop. Jobs that have ended stay as they are."
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

const VERBS: Record<OperationKind, [string, string]> = {
  cancel: ["Canceling", "Canceled"],
  retry: ["Retrying", "Retried"],
  redrive: ["Running again", "Run again"],
  discard: ["Discarding", "Discarded"],
  erase: ["Erasing", "Erased"],
};

export function operationWords(data: { kind: OperationKind; state: string }): string {
  const [now, past] = VERBS[data.kind];
  if (data.state === "waiting")
    return data.kind === "erase" ? "Waiting to erase more" : "Waiting for the canary";
  if (data.state === "failed") return data.kind === "redrive" ? "Stopped by its canary" : "Failed";
  if (data.state === "canceled") return "Stopped";
  return data.state === "done" ? past : now;
}
