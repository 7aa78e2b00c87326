/** Makes or changes a trigger, and shows what it will do before it is saved. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Save } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { parse, print } from "@/api/json";
import { client, definition as definitionQuery, definitions } from "@/api/queries";
import type { CatchUp, Overlap, Trigger, TriggerType } from "@/api/schema";
import { faultOf } from "@/jobs/edited-retry";
import { Button } from "@/parts/button";
import { FormError } from "@/parts/feedback";
import { Area, Field, Input, Select } from "@/parts/form";
import { Panel } from "@/parts/page";
import { Fields, payloadText, type Schema, startOf, type Values } from "@/parts/schema-form";
import { toast } from "@/parts/toasts";
import { NextRuns, OnAnEvent } from "@/triggers/preview";

const CATCH_UPS: Record<CatchUp, string> = {
  none: "Leave them out",
  last: "Run once for the last of them",
  all: "Run once for each of them",
};
const OVERLAPS: Record<Overlap, string> = {
  allow: "Run both",
  skip: "Leave the new one out",
  queue: "Let the new one wait",
  cancel_running: "Cancel the old one",
};

export function TriggerEditor({ trigger }: { trigger: Trigger | null }) {
  const navigate = useNavigate();
  const known = useQuery(definitions());
  const [type, setType] = useState<TriggerType>(trigger?.type ?? "schedule");
  const [label, setLabel] = useState(trigger?.label ?? "");
  const [definition, setDefinition] = useState(trigger?.definition ?? "");
  const [payload, setPayload] = useState(trigger ? print(trigger.payload) : "{}");
  const [cron, setCron] = useState(trigger?.cron ?? "0 9 * * MON-FRI");
  const [zone, setZone] = useState(trigger?.timezone ?? ownZone());
  const [catchUp, setCatchUp] = useState<CatchUp>(trigger?.catch_up ?? "last");
  const [overlap, setOverlap] = useState<Overlap>(trigger?.overlap ?? "allow");
  const [event, setEvent] = useState(trigger?.event ?? "");
  const [filter, setFilter] = useState(trigger ? print(trigger.filter) : "[]");
  const [window, setWindow] = useState(String(trigger?.dedupe_window_s ?? 300));
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const schema = useQuery({ ...definitionQuery(definition), enabled: definition !== "" }).data;
  const fault = faultOf(payload);
  const parameters = (schema?.parameters ?? {}) as Schema;
  const hasForm = type === "schedule" && Object.keys(parameters.properties ?? {}).length > 0;
  const [isForm, setForm] = useState(true);
  const [values, setValues] = useState<Values | null>(null); // until something is typed: the payload's

  function choose(key: string) {
    setDefinition(key);
    setPayload("{}");
    setValues(null);
  }

  async function save() {
    setBusy(true);
    setError(null);
    const members = [
      `"label": ${JSON.stringify(label)}`,
      `"definition": ${JSON.stringify(definition)}`,
      `"payload": ${payload}`,
      ...(type === "schedule"
        ? [
            `"cron": ${JSON.stringify(cron)}`,
            `"timezone": ${JSON.stringify(zone)}`,
            `"catch_up": ${JSON.stringify(catchUp)}`,
            `"overlap": ${JSON.stringify(overlap)}`,
          ]
        : [
            `"event": ${JSON.stringify(event)}`,
            `"filter": ${filter || "[]"}`,
            `"dedupe_window_s": ${Number(window) || 0}`,
          ]),
    ];
    try {
      let id = trigger?.id;
      if (trigger) {
        await call("patch", "/api/v1/triggers/{trigger_id}", {
          path: { trigger_id: trigger.id },
          text: `{${members.join(", ")}}`,
        });
      } else {
        const text = `{"type": ${JSON.stringify(type)}, ${members.join(", ")}}`;
        id = (await call("post", "/api/v1/triggers", { text })).id;
      }
      toast(trigger ? "Changed." : "Made.");
      await client.invalidateQueries({ queryKey: ["triggers"] });
      await client.invalidateQueries({ queryKey: ["trigger", id] });
      if (id) void navigate({ to: "/triggers/$id", params: { id } });
    } catch (caught) {
      setError(caught);
    }
    setBusy(false);
  }

  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4 lg:grid-cols-2">
      <Panel title={trigger ? "Change it" : "What it does"}>
        <form
          className="flex flex-col gap-4 p-4"
          onSubmit={(submitted) => {
            submitted.preventDefault();
            void save();
          }}
        >
          {!trigger && (
            <fieldset className="flex gap-4">
              <legend className="mb-1 font-medium">It fires</legend>
              {(["schedule", "event"] as const).map((each) => (
                <label key={each} className="flex items-center gap-2">
                  <input
                    type="radio"
                    name="type"
                    className="accent-accent"
                    checked={type === each}
                    onChange={() => setType(each)}
                  />
                  {each === "schedule" ? "at times" : "on events"}
                </label>
              ))}
            </fieldset>
          )}
          <Field label="Label" isRequired>
            {(id) => (
              <Input id={id} required value={label} onChange={(e) => setLabel(e.target.value)} />
            )}
          </Field>
          {type === "schedule" ? (
            <>
              <div className="grid grid-cols-2 gap-4">
                <Field label="Cron" isRequired hint="minute hour day month weekday">
                  {(id) => (
                    <Input
                      id={id}
                      required
                      className="font-mono"
                      value={cron}
                      onChange={(e) => setCron(e.target.value)}
                    />
                  )}
                </Field>
                <Field label="Time zone" hint="tenant is the tenant's own.">
                  {(id) => <Input id={id} value={zone} onChange={(e) => setZone(e.target.value)} />}
                </Field>
              </div>
              <div className="grid grid-cols-2 gap-4">
                <Field label="Times that were missed">
                  {(id) => (
                    <Select
                      id={id}
                      value={catchUp}
                      onChange={(e) => setCatchUp(e.target.value as CatchUp)}
                    >
                      {Object.entries(CATCH_UPS).map(([name, words]) => (
                        <option key={name} value={name}>
                          {words}
                        </option>
                      ))}
                    </Select>
                  )}
                </Field>
                <Field label="When the last one still runs">
                  {(id) => (
                    <Select
                      id={id}
                      value={overlap}
                      onChange={(e) => setOverlap(e.target.value as Overlap)}
                    >
                      {Object.entries(OVERLAPS).map(([name, words]) => (
                        <option key={name} value={name}>
                          {words}
                        </option>
                      ))}
                    </Select>
                  )}
                </Field>
              </div>
            </>
          ) : (
            <>
              <Field label="Event" isRequired hint="A name, or the start of one: order.*">
                {(id) => (
                  <Input
                    id={id}
                    required
                    className="font-mono"
                    placeholder="order.paid"
                    value={event}
                    onChange={(e) => setEvent(e.target.value)}
                  />
                )}
              </Field>
              <Field label="Filter" hint="A list of conditions on the event's data; [] takes all.">
                {(id) => (
                  <Area
                    id={id}
                    rows={2}
                    value={filter}
                    onChange={(e) => setFilter(e.target.value)}
                  />
                )}
              </Field>
              <Field label="The same again within so many seconds is left out">
                {(id) => (
                  <Input
                    id={id}
                    type="number"
                    min={0}
                    value={window}
                    onChange={(e) => setWindow(e.target.value)}
                  />
                )}
              </Field>
            </>
          )}
          <Field label="Runs" isRequired hint={schema?.description}>
            {(id) => (
              <Select id={id} required value={definition} onChange={(e) => choose(e.target.value)}>
                <option value="" />
                {known.data?.items.map((each) => (
                  <option key={each.key}>{each.key}</option>
                ))}
              </Select>
            )}
          </Field>
          {hasForm && (
            <Button
              look="quiet"
              className="self-start"
              onClick={() => {
                setForm(!isForm);
                setValues(null);
              }}
            >
              {isForm ? "Payload as JSON" : "Payload as a form"}
            </Button>
          )}
          {hasForm && isForm ? (
            <Fields
              schema={parameters}
              values={values ?? { ...startOf(parameters), ...valuesOf(parsed(payload)) }}
              onChange={(next) => {
                setValues(next);
                setPayload(payloadText(parameters, next));
              }}
            />
          ) : (
            <Field
              label="Payload"
              hint={
                fault ??
                (type === "event"
                  ? "{{event.…}} takes from the event; alone in a text it keeps its type."
                  : `Takes ${namesOf(schema?.parameters) || "nothing"}.`)
              }
            >
              {(id) => (
                <Area
                  id={id}
                  rows={5}
                  value={payload}
                  onChange={(e) => setPayload(e.target.value)}
                />
              )}
            </Field>
          )}
          <FormError error={error} />
          <Button
            type="submit"
            look="primary"
            icon={Save}
            className="self-start"
            disabled={isBusy || fault !== null}
          >
            {trigger ? "Save" : "Make it"}
          </Button>
        </form>
      </Panel>
      {type === "schedule" ? (
        <NextRuns cron={cron} zone={zone} />
      ) : (
        <OnAnEvent name={event} payload={payload} />
      )}
    </div>
  );
}

function parsed(payload: string): Record<string, unknown> {
  return faultOf(payload) === null ? (parse(payload) as Record<string, unknown>) : {};
}

function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** What a form shows of a payload: texts as they are, everything else as JSON. */
function valuesOf(payload: Record<string, unknown>): Values {
  return Object.fromEntries(
    Object.entries(payload).map(([name, value]) => [
      name,
      typeof value === "string" ? value : print(value),
    ]),
  );
}

function namesOf(schema: unknown): string {
  const properties = (schema as { properties?: Record<string, unknown> } | null)?.properties;
  return Object.keys(properties ?? {}).join(", ");
}
