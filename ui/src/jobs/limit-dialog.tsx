/** Sets the concurrency and rate limits of a queue, a definition or a tenant. */

import { useState } from "react";
import { Confirm } from "@/parts/confirm";
import { Field, Input } from "@/parts/form";

interface Limits {
  max_running?: number | null;
  rate_limit?: number | null;
  rate_period_s?: number | null;
}

interface Props {
  title: string;
  limits: Limits;
  save: (limits: Limits) => Promise<unknown>;
  onClose: () => void;
}

export function LimitDialog({ title, limits, save, onClose }: Props) {
  const [running, setRunning] = useState(text(limits.max_running));
  const [rate, setRate] = useState(text(limits.rate_limit));
  const [period, setPeriod] = useState(text(limits.rate_period_s));
  return (
    <Confirm
      title={title}
      verb="Save"
      onClose={onClose}
      act={() =>
        save({
          max_running: number(running),
          rate_limit: number(rate),
          ...(number(rate) === null ? {} : { rate_period_s: number(period) ?? 1 }),
        })
      }
    >
      <p className="text-muted">
        Limits apply to all workers together. Leave a field empty to remove its limit.
      </p>
      <Field label="Maximum running jobs" hint={now(limits.max_running)}>
        {(id) => (
          <Input
            id={id}
            type="number"
            min={0}
            value={running}
            onChange={(event) => setRunning(event.target.value)}
          />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Starts per period" hint={now(limits.rate_limit)}>
          {(id) => (
            <Input
              id={id}
              type="number"
              min={0}
              value={rate}
              onChange={(event) => setRate(event.target.value)}
            />
          )}
        </Field>
        <Field label="Period (seconds)">
          {(id) => (
            <Input
              id={id}
              type="number"
              min={0.001}
              step="any"
              placeholder="1"
              value={period}
              onChange={(event) => setPeriod(event.target.value)}
            />
          )}
        </Field>
      </div>
    </Confirm>
  );
}

function text(value: number | null | undefined): string {
  return value == null ? "" : String(value);
}

function number(value: string): number | null {
  return value === "" ? null : Number(value);
}

function now(value: number | null | undefined): string {
  return value == null ? "Current limit: none." : `Current limit: ${value}.`;
}
