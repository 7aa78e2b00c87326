import { useState } from "react";
import { call } from "@/api/client";
import { client } from "@/api/queries";
import type { WorkflowInfo } from "@/api/schema";
import { Confirm } from "@/parts/confirm";
import { Field, Input } from "@/parts/form";
import { toast } from "@/parts/toasts";

interface Props {
  row: WorkflowInfo;
  isBatch?: boolean;
  onClose: () => void;
}

export function CancelWorkflow({ row, isBatch = false, onClose }: Props) {
  const [reason, setReason] = useState("");
  const what = isBatch ? "batch" : "workflow";
  const capitalized = isBatch ? "Batch" : "Workflow";
  return (
    <Confirm
      title={`Cancel this ${what}?`}
      verb={`Cancel ${what}`}
      dismiss={`Keep ${what}`}
      isDangerous
      onClose={onClose}
      act={async () => {
        const body = { reason: reason || null };
        const answer = isBatch
          ? await call("post", "/api/v1/batches/{batch_id}/cancel", {
              path: { batch_id: row.id },
              body,
            })
          : await call("post", "/api/v1/workflows/{workflow_id}/cancel", {
              path: { workflow_id: row.id },
              body,
            });
        toast(
          answer.state === "canceled" ? `${capitalized} canceled.` : "Stopping the running jobs…",
        );
        await client.invalidateQueries({ queryKey: ["workflow"] });
      }}
    >
      <p className="text-muted">
        Jobs that have not started will not run. Running jobs are asked to stop. Finished jobs are
        unchanged.
      </p>
      <Field label="Reason" hint="Shown on each job and in the audit log.">
        {(id) => (
          <Input id={id} value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}
