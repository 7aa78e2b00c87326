/** Dialogs for a failure group: retry its jobs, discard them, or add a note. */

import { useState } from "react";
import { call } from "@/api/client";
import { client } from "@/api/queries";
import type { FailureGroup } from "@/api/schema";
import { short } from "@/jobs/short-count";
import { Confirm } from "@/parts/confirm";
import { Area, Field, Input } from "@/parts/form";
import { plural } from "@/parts/plural";

interface DialogProps {
  group: FailureGroup;
  onClose: () => void;
  onStarted: (id: string) => void;
}

export function Redrive({ group, onClose, onStarted }: DialogProps) {
  const [canary, setCanary] = useState("1");
  const [rate, setRate] = useState("10");
  return (
    <Confirm
      title={`Redrive ${deadJobs(group)}`}
      verb="Start redrive"
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
        Canary jobs are retried first. If all of them succeed, the other jobs follow. If one of them
        fails permanently again, the other jobs stay dead.
      </p>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Canary jobs" hint="Leave empty to retry all jobs at once.">
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
        <Field label="Jobs per second" hint="Leave empty for no rate limit.">
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

export function Discard({ group, onClose, onStarted }: DialogProps) {
  const [reason, setReason] = useState("");
  return (
    <Confirm
      title={`Discard ${deadJobs(group)}`}
      verb={`Discard ${plural(short(group.jobs), "job")}`}
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
        Discarded jobs become canceled and stay in the history. This cannot be undone.
      </p>
      <Field label="Reason" hint="Recorded in the audit log.">
        {(id) => (
          <Input id={id} value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}

export function Note({ group, onClose }: { group: FailureGroup; onClose: () => void }) {
  const [note, setNote] = useState(group.note ?? "");
  const [build, setBuild] = useState(group.resolved_in ?? "");
  return (
    <Confirm
      title="Edit note"
      verb="Save"
      onClose={onClose}
      act={() => saveNote(group, { note: note || null, resolved_in: build || null })}
    >
      <Field label="Note" hint="For the next person who views this group.">
        {(id) => (
          <Area id={id} rows={4} value={note} onChange={(event) => setNote(event.target.value)} />
        )}
      </Field>
      <Field
        label="Fixed in build"
        hint="Build name as reported by workers. The group is hidden until the error recurs on this build or a later one."
      >
        {(id) => <Input id={id} value={build} onChange={(event) => setBuild(event.target.value)} />}
      </Field>
    </Confirm>
  );
}

export async function saveNote(
  group: FailureGroup,
  body: { note?: string | null; snoozed_until?: string | null; resolved_in?: string | null },
) {
  await call("patch", "/api/v1/failures/{fingerprint}", {
    path: { fingerprint: group.fingerprint },
    body,
  });
  await client.invalidateQueries({ queryKey: ["failures"] });
}

function deadJobs(group: FailureGroup): string {
  return plural(short(group.jobs), "dead job");
}
