/** The actions on one job that the user's role and the job's state permit. */

import { useNavigate } from "@tanstack/react-router";
import { Ban, Copy, FileText, Pencil, RotateCcw } from "lucide-react";
import { type ReactNode, useState } from "react";
import { call } from "@/api/client";
import { client } from "@/api/queries";
import type { JobListing } from "@/api/schema";
import { EditedRetry } from "@/jobs/edited-retry";
import { CANCELABLE, RETRYABLE } from "@/jobs/states";
import { Confirm } from "@/parts/confirm";
import { copy } from "@/parts/copy";
import { Field, Input } from "@/parts/form";
import type { Item } from "@/parts/menu";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";

export function useJobActions(
  job: Pick<JobListing, "id" | "state" | "definition">,
  onChanged: () => void,
) {
  const { may } = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"cancel" | "edit" | null>(null);
  const canAct = may("jobs", "write");

  function done(text: ReactNode) {
    toast(text);
    void client.invalidateQueries({ queryKey: ["job", job.id] });
    void client.invalidateQueries({ queryKey: ["explain", job.id] });
    onChanged();
  }

  async function retry() {
    try {
      const again = await call("post", "/api/v1/jobs/{job_id}/retry", { path: { job_id: job.id } });
      if (again.id === job.id) done("Job queued again.");
      else {
        done("New job created.");
        void navigate({ to: "/jobs/$id", params: { id: again.id } });
      }
    } catch (error) {
      toastError(error);
    }
  }

  const canCancel = canAct && CANCELABLE.has(job.state);
  const canRetry = canAct && RETRYABLE.has(job.state);
  const items: Item[] = [
    {
      label: "Open",
      icon: FileText,
      act: () => void navigate({ to: "/jobs/$id", params: { id: job.id } }),
    },
    {
      label: "View attempts",
      icon: FileText,
      act: () => void navigate({ to: "/jobs/$id", params: { id: job.id }, hash: "attempts" }),
    },
    { label: "Copy ID", icon: Copy, act: () => void copy(job.id).then(() => toast("Copied.")) },
  ];
  if (canRetry) {
    items.push({ label: "Retry", icon: RotateCcw, act: () => void retry() });
    items.push({ label: "Retry with another payload…", icon: Pencil, act: () => setOpen("edit") });
  }
  if (canCancel)
    items.push({
      label: job.state === "dead" ? "Discard…" : "Cancel…",
      icon: Ban,
      act: () => setOpen("cancel"),
      isDangerous: true,
    });

  let dialog: ReactNode = null;
  if (open === "cancel")
    dialog = <CancelDialog job={job} onClose={() => setOpen(null)} onDone={done} />;
  if (open === "edit")
    dialog = <EditedRetry id={job.id} definition={job.definition} onClose={() => setOpen(null)} />;
  return {
    items,
    dialog,
    retry,
    canCancel,
    canRetry,
    cancel: () => setOpen("cancel"),
    edit: () => setOpen("edit"),
  };
}

function CancelDialog({
  job,
  onClose,
  onDone,
}: {
  job: Pick<JobListing, "id" | "state">;
  onClose: () => void;
  onDone: (text: string) => void;
}) {
  const [reason, setReason] = useState("");
  const isRunning = job.state === "running";
  const verb = job.state === "dead" ? "Discard" : "Cancel";
  return (
    <Confirm
      title={`${verb} this job?`}
      verb={`${verb} job`}
      dismiss="Keep job"
      isDangerous
      onClose={onClose}
      act={async () => {
        const answer = await call("post", "/api/v1/jobs/{job_id}/cancel", {
          path: { job_id: job.id },
          body: { reason: reason || null },
        });
        onDone(answer.state === "canceled" ? "Job canceled." : "Stopping the job…");
      }}
    >
      <p className="text-muted">
        {isRunning
          ? "The worker asks the job to stop, and kills it if it still runs after its grace period."
          : "The job will not run again. It stays in the history; a retry creates a new job."}
      </p>
      <Field label="Reason" hint="Shown in the job's timeline and in the audit log.">
        {(id) => (
          <Input id={id} value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}
