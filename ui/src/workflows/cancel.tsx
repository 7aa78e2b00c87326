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
  return (
    <Confirm
      title={`Cancel this ${what}?`}
      verb={`Cancel the ${what}`}
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
        toast(answer.state === "canceled" ? "Canceled." : "What runs is asked to stop.");
        await client.invalidateQueries({ queryKey: ["workflow"] });
      }}
    >
      <p className="text-muted">
        What has not started will not run. Jobs that run are asked to stop. What is done stays.
      </p>
      <Field label="Reason" hint="Shown with each of its jobs and in the audit log.">
        {(id) => (
          <Input id={id} value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}
