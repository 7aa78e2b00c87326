/** Retries a job with another payload: creates a new job that refers to the old one. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "@/api/client";
import { print } from "@/api/json";
import { job as jobQuery } from "@/api/queries";
import { Confirm } from "@/parts/confirm";
import { Skeleton } from "@/parts/feedback";
import { Area, Field } from "@/parts/form";
import { toast } from "@/parts/toasts";

export function EditedRetry({
  id,
  definition,
  onClose,
}: {
  id: string;
  definition: string;
  onClose: () => void;
}) {
  const { data } = useQuery(jobQuery(id));
  const navigate = useNavigate();
  const [edited, setEdited] = useState<string | null>(null);
  const original = data ? print(data.job.payload) : "";
  const text = edited ?? original;
  const fault = faultOf(text);
  const isMasked = text.includes('"[redacted]"');
  return (
    <Confirm
      title={`Retry ${definition} with another payload`}
      verb="Create job"
      isReady={data !== undefined && fault === null && !isMasked}
      onClose={onClose}
      act={async () => {
        // The text is sent unchanged, because JavaScript would round long numbers.
        const again = await call("post", "/api/v1/jobs/{job_id}/retry", {
          path: { job_id: id },
          text: `{"payload": ${text}}`,
        });
        toast("New job created.");
        void navigate({ to: "/jobs/$id", params: { id: again.id } });
      }}
    >
      {data === undefined ? (
        <Skeleton rows={3} />
      ) : (
        <Field
          label="Payload"
          hint={fault ?? "Checked against the definition's parameters before the job is created."}
        >
          {(field) => (
            <Area
              id={field}
              rows={Math.min(20, text.split("\n").length + 1)}
              value={text}
              aria-invalid={fault !== null}
              onChange={(event) => setEdited(event.target.value)}
            />
          )}
        </Field>
      )}
      {isMasked && (
        <p className="text-warn">
          Secrets are masked as <code className="font-mono">[redacted]</code>: enter the values.
        </p>
      )}
    </Confirm>
  );
}

export function faultOf(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value)
      ? null
      : "Must be a JSON object.";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
