/** Creates or edits an endpoint. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "@/api/client";
import { client, definitions } from "@/api/queries";
import type { Webhook, WebhookEvent } from "@/api/schema";
import { Confirm } from "@/parts/confirm";
import { Check, Field, Input } from "@/parts/form";
import { originOf } from "@/parts/origin";

export const EVENTS: [WebhookEvent, string][] = [
  ["start", "An attempt starts"],
  ["success", "A job succeeds"],
  ["failure", "An attempt fails"],
  ["dead", "A job is dead (it failed permanently)"],
  ["end", "A job finishes, with any outcome"],
];

interface Props {
  webhook: Webhook | null;
  onMade?: (made: { id: string; secret: string }) => void;
  onClose: () => void;
}

export function WebhookForm({ webhook, onMade, onClose }: Props) {
  const [url, setUrl] = useState(webhook?.url ?? "https://");
  const [description, setDescription] = useState(webhook?.description ?? "");
  const [events, setEvents] = useState<WebhookEvent[]>(webhook?.events ?? ["success", "dead"]);
  const [isAll, setAll] = useState(!webhook?.definitions);
  const [secret, setSecret] = useState("");
  const isMoved = webhook !== null && originOf(url) !== originOf(webhook.url);
  const [chosen, setChosen] = useState<string[]>(webhook?.definitions ?? []);
  const known = useQuery(definitions());
  const names = new Set([...(known.data?.items.map((each) => each.key) ?? []), ...chosen]);

  async function save() {
    const body = {
      url: url.trim(),
      description: description.trim() || null,
      events,
      definitions: isAll ? null : chosen,
    };
    if (webhook) {
      await call("patch", "/api/v1/webhooks/{endpoint_id}", {
        path: { endpoint_id: webhook.id },
        body: isMoved ? { ...body, secret: secret.trim() } : body,
      });
    } else {
      const made = await call("post", "/api/v1/webhooks", { body: { ...body, enabled: true } });
      onMade?.(made);
    }
    await client.invalidateQueries({ queryKey: ["webhooks"] });
    await client.invalidateQueries({ queryKey: ["webhook"] });
  }

  return (
    <Confirm
      title={webhook ? "Edit webhook" : "Create webhook"}
      verb={webhook ? "Save" : "Create"}
      isReady={
        url.trim() !== "" &&
        events.length > 0 &&
        (isAll || chosen.length > 0) &&
        (!isMoved || secret.trim() !== "")
      }
      onClose={onClose}
      act={save}
    >
      <Field
        label="URL"
        isRequired
        hint="A public address. JobForge sends each message as a POST request."
      >
        {(id) => (
          <Input
            id={id}
            type="url"
            required
            value={url}
            onChange={(event) => setUrl(event.target.value)}
          />
        )}
      </Field>
      {isMoved && (
        <Field
          label="Secret"
          isRequired
          hint="The URL has another origin. Enter the signing secret again."
        >
          {(id) => (
            <Input
              id={id}
              type="password"
              autoComplete="off"
              required
              placeholder="whsec_…"
              className="font-mono"
              value={secret}
              onChange={(event) => setSecret(event.target.value)}
            />
          )}
        </Field>
      )}
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 font-medium">Send a message when</legend>
        {EVENTS.map(([name, words]) => (
          <Check
            key={name}
            label={words}
            checked={events.includes(name)}
            onChange={() => setEvents(toggle(events, name))}
          />
        ))}
      </fieldset>
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 font-medium">For jobs of</legend>
        <Check label="All definitions" checked={isAll} onChange={() => setAll(!isAll)} />
        {!isAll && (
          <div className="flex max-h-40 flex-col gap-1.5 overflow-y-auto rounded-md border border-line p-2.5">
            {[...names].map((name) => (
              <Check
                key={name}
                label={name}
                checked={chosen.includes(name)}
                onChange={() => setChosen(toggle(chosen, name))}
              />
            ))}
          </div>
        )}
      </fieldset>
      <Field label="Description">
        {(id) => (
          <Input
            id={id}
            value={description}
            onChange={(event) => setDescription(event.target.value)}
          />
        )}
      </Field>
    </Confirm>
  );
}

function toggle<T>(list: T[], each: T): T[] {
  return list.includes(each) ? list.filter((other) => other !== each) : [...list, each];
}
