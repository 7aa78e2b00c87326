/** The fields that select events: name patterns and conditions on their data. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { events } from "@/api/queries";
import { Button } from "@/parts/button";
import { Field, Input, Select } from "@/parts/form";
import { setLength } from "@/parts/time";
import type { Condition, Draft } from "@/triggers/draft";
import { OPERATORS } from "@/triggers/labels";

interface Props {
  draft: Draft;
  onChange: (changed: Partial<Draft>) => void;
}

export function EventFields({ draft, onChange }: Props) {
  const known = useInfiniteQuery(events());
  const names = new Set(known.data?.pages.flatMap((page) => page.items.map((each) => each.name)));
  return (
    <>
      <Field
        label="Event"
        isRequired
        hint="A name such as order.paid, a prefix such as order.*, or * for every event."
      >
        {(id) => (
          <>
            <Input
              id={id}
              required
              list={`${id}-names`}
              placeholder="order.paid"
              value={draft.event}
              onChange={(event) => onChange({ event: event.target.value })}
            />
            <datalist id={`${id}-names`}>
              {[...names].map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Conditions rows={draft.conditions} onChange={(conditions) => onChange({ conditions })} />
      <Field
        label="Deduplication window (seconds)"
        hint={
          Number(draft.dedupeWindow) > 0
            ? `Events with the same payload create one job within ${setLength(Number(draft.dedupeWindow))}, unless they are emitted with a key. Set it to 0 if equal payloads can be separate events.`
            : "Every event creates a job, except events emitted with the same key."
        }
      >
        {(id) => (
          <Input
            id={id}
            type="number"
            min={0}
            max={2_592_000}
            value={draft.dedupeWindow}
            onChange={(event) => onChange({ dedupeWindow: event.target.value })}
          />
        )}
      </Field>
      {Number(draft.dedupeWindow) > 0 && (
        <Field
          label="Deduplication key"
          hint="A template to compare instead of the payload, such as {{ event.order }}."
        >
          {(id) => (
            <Input
              id={id}
              className="font-mono"
              value={draft.dedupeKey}
              onChange={(event) => onChange({ dedupeKey: event.target.value })}
            />
          )}
        </Field>
      )}
    </>
  );
}

interface RowsProps {
  rows: Condition[];
  onChange: (rows: Condition[]) => void;
}

function Conditions({ rows, onChange }: RowsProps) {
  function change(index: number, changed: Partial<Condition>) {
    onChange(rows.map((row, at) => (at === index ? { ...row, ...changed } : row)));
  }
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 font-medium">Conditions (all must match)</legend>
      {rows.map((row, index) => (
        <div key={index} className="flex flex-wrap gap-1.5 sm:flex-nowrap">
          <Input
            aria-label={`Path ${index + 1}`}
            placeholder="event.total"
            className="font-mono sm:!w-0 sm:flex-1"
            value={row.path}
            onChange={(event) => change(index, { path: event.target.value })}
          />
          <Select
            aria-label={`Operator ${index + 1}`}
            className="!w-32 shrink-0"
            value={row.op}
            onChange={(event) =>
              change(index, {
                op: event.target.value,
                value: event.target.value === "exists" ? "true" : row.value,
              })
            }
          >
            {OPERATORS.map(([op, words]) => (
              <option key={op} value={op}>
                {words}
              </option>
            ))}
          </Select>
          {row.op === "exists" ? (
            <Select
              aria-label={`Value ${index + 1}`}
              className="!w-0 flex-1"
              value={row.value}
              onChange={(event) => change(index, { value: event.target.value })}
            >
              <option value="true">yes</option>
              <option value="false">no</option>
            </Select>
          ) : (
            <Input
              aria-label={`Value ${index + 1}`}
              placeholder={row.op === "in" ? '["a", "b"]' : "100"}
              className="!w-0 flex-1 font-mono"
              value={row.value}
              onChange={(event) => change(index, { value: event.target.value })}
            />
          )}
          <Button
            look="quiet"
            icon={X}
            label={`Remove condition ${index + 1}`}
            className="!h-8"
            onClick={() => onChange(rows.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <Button
        icon={Plus}
        className="self-start"
        onClick={() => onChange([...rows, { path: "event.", op: "eq", value: "" }])}
      >
        Add condition
      </Button>
      {rows.length > 0 && (
        <p className="text-faint text-xs">
          Values are JSON: 42 is a number, and "42" is a string. Text that is not valid JSON is a
          string.
        </p>
      )}
    </fieldset>
  );
}
