/** A preview of the payload for a recent event. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "@/api/client";
import { print } from "@/api/json";
import { events } from "@/api/queries";
import { faultOf } from "@/jobs/edited-retry";
import { FormError } from "@/parts/feedback";
import { Field, Select } from "@/parts/form";
import { JsonView } from "@/parts/json";
import { Panel } from "@/parts/page";
import { relative } from "@/parts/time";

export function TemplatePreview({ pattern, payload }: { pattern: string; payload: string }) {
  const [chosen, setChosen] = useState("");
  const known = useRecent(pattern);
  const id = chosen || known[0]?.id;
  const isSound = faultOf(payload) === null;
  const preview = useQuery({
    queryKey: ["template preview", payload, id],
    queryFn: ({ signal }) =>
      call("post", "/api/v1/triggers/preview", {
        text: `{"payload": ${payload}, "event_id": ${print(id)}}`,
        signal,
      }),
    enabled: id !== undefined && isSound,
    retry: false,
    placeholderData: (old) => old,
  });
  return (
    <Panel title="Preview with a recent event">
      {known.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          No event with this name yet. When your application emits one, its payload appears here.
        </p>
      ) : (
        <div className="flex flex-col gap-1">
          <div className="p-4 pb-0">
            <EventPicker events={known} value={id ?? ""} onChange={setChosen} />
          </div>
          {preview.isError ? (
            <div className="p-4">
              <FormError error={preview.error} />
            </div>
          ) : (
            preview.data && <JsonView label="Rendered payload" value={preview.data.payload} />
          )}
        </div>
      )}
    </Panel>
  );
}

interface Recent {
  id: string;
  name: string;
  created_at: string;
}

/** The latest events that match a pattern. */
export function useRecent(pattern: string): Recent[] {
  const name = pattern === "*" || pattern === "" ? undefined : pattern;
  const query = useInfiniteQuery({ ...events(name), enabled: pattern !== "", retry: false });
  return query.data?.pages.flatMap((page) => page.items).slice(0, 20) ?? [];
}

interface PickerProps {
  events: Recent[];
  value: string;
  onChange: (id: string) => void;
}

export function EventPicker({ events: known, value, onChange }: PickerProps) {
  return (
    <Field label="Event">
      {(id) => (
        <Select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
          {known.map((each) => (
            <option key={each.id} value={each.id}>
              {each.name}, {relative(new Date(each.created_at).getTime() - Date.now())}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
