/** What a trigger would do: its next times, or its payload for an event that really came. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { call } from "@/api/client";
import { events } from "@/api/queries";
import { faultOf } from "@/jobs/edited-retry";
import { FormError } from "@/parts/feedback";
import { Field, Select } from "@/parts/form";
import { JsonView } from "@/parts/json";
import { Panel } from "@/parts/page";
import { Ago } from "@/parts/time";

const CHANGES = {
  skipped: "the clocks skip this time: it runs at the next valid minute",
  repeated: "the clocks show this time twice: it runs once",
};

export function NextRuns({ cron, zone }: { cron: string; zone: string }) {
  const asked = useDeferredValue(cron.trim());
  const place = useDeferredValue(zone.trim() || "UTC");
  const query = useQuery({
    queryKey: ["preview", asked, place],
    queryFn: () =>
      call("post", "/api/v1/triggers/preview", {
        body: { cron: asked, timezone: place, count: 5 },
      }),
    enabled: asked !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });
  return (
    <Panel title="Its next times">
      <div className="flex flex-col gap-3 p-4">
        {query.isError ? (
          <FormError error={query.error} />
        ) : (
          <>
            <p className="font-medium">{query.data?.words ?? "…"}</p>
            <ol className="flex flex-col gap-2">
              {query.data?.runs.map((run) => (
                <li key={run.at} className="flex flex-col">
                  <span className="flex flex-wrap justify-between gap-x-4">
                    <span className="num font-medium">{run.local}</span>
                    <span className="text-faint">
                      <Ago at={run.at} />
                    </span>
                  </span>
                  <span className="num text-muted text-xs">
                    {run.at.slice(0, 16).replace("T", " ")} UTC
                  </span>
                  {run.change && <span className="text-warn text-xs">{CHANGES[run.change]}</span>}
                </li>
              ))}
            </ol>
            {query.data && <p className="text-faint text-xs">In {query.data.timezone}.</p>}
          </>
        )}
      </div>
    </Panel>
  );
}

export function OnAnEvent({ name, payload }: { name: string; payload: string }) {
  const exact = name !== "" && !name.endsWith("*") ? { name } : {};
  const recent = useQuery(events(exact, 20));
  const [id, setId] = useState("");
  const chosen = recent.data?.items.find((each) => each.id === id) ?? recent.data?.items[0];
  const whole = useQuery({
    queryKey: ["event", chosen?.id],
    queryFn: () =>
      call("get", "/api/v1/events/{event_id}", { path: { event_id: chosen?.id ?? "" } }),
    enabled: chosen !== undefined,
  });
  const data = whole.data?.data;
  const rendered = useQuery({
    queryKey: ["preview", payload, chosen?.id],
    queryFn: () =>
      call("post", "/api/v1/triggers/preview", {
        text: `{"payload": ${payload}, "event": ${JSON.stringify(data)}}`,
      }),
    enabled: data !== undefined && faultOf(payload) === null,
    placeholderData: keepPreviousData,
    retry: false,
  });
  return (
    <Panel title="On a real event">
      <div className="flex flex-col gap-3 p-4">
        {chosen === undefined ? (
          <p className="text-muted">No event of this name has come yet. Send one under Events.</p>
        ) : (
          <>
            <Field label="Event">
              {(field) => (
                <Select id={field} value={chosen.id} onChange={(e) => setId(e.target.value)}>
                  {recent.data?.items.map((each) => (
                    <option key={each.id} value={each.id}>
                      {each.name} · {each.created_at.slice(0, 19).replace("T", " ")}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <h3 className="text-faint text-xs">Its data</h3>
            <JsonView label="Event" value={data ?? {}} />
            <h3 className="text-faint text-xs">The payload that comes of it</h3>
            {rendered.isError ? (
              <FormError error={rendered.error} />
            ) : (
              <JsonView label="Payload" value={rendered.data?.payload ?? {}} />
            )}
          </>
        )}
      </div>
    </Panel>
  );
}
