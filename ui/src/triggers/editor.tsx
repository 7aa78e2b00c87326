/** The trigger editor: what to run, when, and with which payload, next to a preview. */

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useDeferredValue, useState } from "react";
import { call } from "@/api/client";
import { client, definition, definitions, triggers } from "@/api/queries";
import type { Trigger } from "@/api/schema";
import { faultOf } from "@/jobs/edited-retry";
import { Button } from "@/parts/button";
import { FormError } from "@/parts/feedback";
import { Field, Input, Select } from "@/parts/form";
import { Panel } from "@/parts/page";
import { bodyOf, type Draft } from "@/triggers/draft";
import { EventFields } from "@/triggers/event-fields";
import { PlannedRuns } from "@/triggers/next-runs";
import { firstPayload, PayloadPanel } from "@/triggers/payload";
import { ScheduleFields } from "@/triggers/schedule-fields";
import { TemplatePreview } from "@/triggers/template-preview";

interface Props {
  trigger: Trigger | null;
  start: Draft;
  onSaved: (id: string) => void;
  onCancel: () => void;
}

export function Editor({ trigger, start, onSaved, onCancel }: Props) {
  const [draft, setDraft] = useState(start);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const known = useQuery(definitions());
  const info = useQuery({ ...definition(draft.definition), enabled: draft.definition !== "" });
  const payload = draft.payload ?? (info.data ? firstPayload(info.data) : "{}");
  const change = (changed: Partial<Draft>) => setDraft({ ...draft, ...changed });
  const isSchedule = draft.type === "schedule";

  async function save() {
    setBusy(true);
    setError(null);
    const text = bodyOf({ ...draft, payload }, trigger ? start : null);
    try {
      const id = trigger
        ? await call("patch", "/api/v1/triggers/{trigger_id}", {
            path: { trigger_id: trigger.id },
            text,
          }).then(() => trigger.id)
        : (await call("post", "/api/v1/triggers", { text })).id;
      await client.invalidateQueries({ queryKey: ["triggers"] });
      await client.invalidateQueries({ queryKey: ["trigger", id] });
      onSaved(id);
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  }

  return (
    <form
      className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 lg:grid-cols-[minmax(0,1fr)_380px]"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div className="flex min-w-0 flex-col gap-4">
        <Panel title="Trigger">
          <div className="flex flex-col gap-4 p-4">
            {trigger === null && (
              <TypeChoice value={draft.type} onChange={(type) => change({ type })} />
            )}
            <div className="grid grid-cols-1 gap-4 sm:grid-cols-2">
              <Field label="Name" isRequired>
                {(id) => (
                  <Input
                    id={id}
                    required
                    placeholder={isSchedule ? "Morning report" : "Receipt for a paid order"}
                    value={draft.label}
                    onChange={(event) => change({ label: event.target.value })}
                  />
                )}
              </Field>
              <Field label="Definition" isRequired>
                {(id) => (
                  <Select
                    id={id}
                    required
                    value={draft.definition}
                    onChange={(event) => change({ definition: event.target.value, payload: null })}
                  >
                    <option value="">Select a definition</option>
                    {known.data?.items.map((each) => (
                      <option key={each.key} value={each.key}>
                        {each.key}
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
            </div>
          </div>
        </Panel>
        <Panel title={isSchedule ? "Schedule" : "Event"}>
          <div className="flex flex-col gap-4 p-4">
            {isSchedule ? (
              <ScheduleFields draft={draft} onChange={change} />
            ) : (
              <EventFields draft={draft} onChange={change} />
            )}
          </div>
        </Panel>
        {info.data && (
          <PayloadPanel
            key={draft.definition}
            info={info.data}
            hint={isSchedule ? "schedule.fire_at" : "event.order"}
            text={payload}
            onChange={(text) => change({ payload: text })}
          />
        )}
        <FormError error={error} />
        <div className="flex gap-2">
          <Button
            type="submit"
            look="primary"
            disabled={isBusy || draft.label.trim() === "" || faultOf(payload) !== null}
          >
            {trigger ? "Save" : "Create trigger"}
          </Button>
          <Button onClick={onCancel}>Cancel</Button>
        </div>
      </div>
      <div className="flex min-w-0 flex-col gap-4">
        <Preview draft={draft} payload={payload} zone={trigger?.zone} />
      </div>
    </form>
  );
}

/** The preview, updated shortly after the user stops typing. */
function Preview({
  draft,
  payload,
  zone,
}: {
  draft: Draft;
  payload: string;
  zone?: string | undefined;
}) {
  const cron = useDeferredValue(draft.cron.trim());
  const text = useDeferredValue(payload);
  const own = useQuery({ ...triggers(), enabled: draft.timezone === "tenant" });
  if (draft.type === "event") {
    return <TemplatePreview pattern={draft.event.trim()} payload={text} />;
  }
  const another = own.data?.items.find((each) => each.timezone === "tenant")?.zone;
  const named = draft.timezone === "tenant" ? (zone ?? another ?? "UTC") : draft.timezone.trim();
  return (
    <Panel title="Next runs">
      <PlannedRuns cron={cron} zone={named} />
    </Panel>
  );
}

function TypeChoice({
  value,
  onChange,
}: {
  value: Draft["type"];
  onChange: (type: Draft["type"]) => void;
}) {
  const choices: [Draft["type"], ReactNode, string][] = [
    ["schedule", "Schedule", "At the times of a cron expression, in a time zone."],
    ["event", "Event trigger", "When your application emits a matching event."],
  ];
  return (
    <fieldset className="grid grid-cols-1 gap-2 sm:grid-cols-2">
      <legend className="sr-only">Type</legend>
      {choices.map(([type, title, words]) => (
        <label
          key={type}
          className={`flex cursor-pointer items-start gap-2.5 rounded-lg border p-3 ${type === value ? "border-accent bg-accent-soft" : "border-line hover:border-strong"}`}
        >
          <input
            type="radio"
            name="type"
            className="mt-0.5 size-4 accent-accent"
            checked={type === value}
            onChange={() => onChange(type)}
          />
          <span>
            <span className="block font-medium">{title}</span>
            <span className="text-muted text-xs">{words}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
