/** Makes or changes a webhook; its secret is shown once. */

import { useState } from "react";
import { call } from "@/api/client";
import { client } from "@/api/queries";
import type { Webhook, WebhookEvent } from "@/api/schema";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Dialog } from "@/parts/dialog";
import { Snippet } from "@/parts/feedback";
import { Check, Field, Input } from "@/parts/form";

const EVENTS: Record<WebhookEvent, string> = {
  start: "an attempt starts",
  success: "a job succeeds",
  failure: "an attempt fails",
  dead: "a job dies",
  end: "a job ends, however",
};

const PYTHON = `from standardwebhooks import Webhook

def receive(body: bytes, headers: dict[str, str]) -> dict:
    return Webhook(SECRET).verify(body, headers)  # raises when it is not from us`;

interface Props {
  webhook: Webhook | null;
  onClose: () => void;
  onSecret: (secret: string) => void;
}

export function EditWebhook({ webhook, onClose, onSecret }: Props) {
  const [url, setUrl] = useState(webhook?.url ?? "https://");
  const [description, setDescription] = useState(webhook?.description ?? "");
  const [events, setEvents] = useState<WebhookEvent[]>(webhook?.events ?? ["success", "dead"]);
  const [definitions, setDefinitions] = useState(webhook?.definitions?.join(", ") ?? "");
  const [enabled, setEnabled] = useState(webhook?.enabled ?? true);
  return (
    <Confirm
      title={webhook ? "Change the webhook" : "New webhook"}
      verb={webhook ? "Change it" : "Make it"}
      isReady={events.length > 0}
      onClose={onClose}
      act={async () => {
        const names = definitions
          .split(",")
          .map((each) => each.trim())
          .filter(Boolean);
        const body = {
          url,
          description: description || null,
          events,
          definitions: names.length > 0 ? names : null,
          enabled,
        };
        if (webhook) {
          const path = { endpoint_id: webhook.id };
          await call("patch", "/api/v1/webhooks/{endpoint_id}", { path, body });
          await client.invalidateQueries({ queryKey: ["webhook", webhook.id] });
        } else onSecret((await call("post", "/api/v1/webhooks", { body })).secret);
        await client.invalidateQueries({ queryKey: ["webhooks"] });
      }}
    >
      <Field label="Address" isRequired>
        {(id) => (
          <Input id={id} type="url" required value={url} onChange={(e) => setUrl(e.target.value)} />
        )}
      </Field>
      <Field label="Description">
        {(id) => (
          <Input id={id} value={description} onChange={(e) => setDescription(e.target.value)} />
        )}
      </Field>
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 font-medium">It is told when</legend>
        {(Object.entries(EVENTS) as [WebhookEvent, string][]).map(([name, words]) => (
          <Check
            key={name}
            label={words}
            checked={events.includes(name)}
            onChange={(e) =>
              setEvents(
                e.target.checked ? [...events, name] : events.filter((each) => each !== name),
              )
            }
          />
        ))}
      </fieldset>
      <Field label="Definitions" hint="With commas between; empty: all.">
        {(id) => (
          <Input id={id} value={definitions} onChange={(e) => setDefinitions(e.target.value)} />
        )}
      </Field>
      {webhook && (
        <Check label="On" checked={enabled} onChange={(e) => setEnabled(e.target.checked)} />
      )}
    </Confirm>
  );
}

export function SecretDialog({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog
      title="The secret"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I have kept it
        </Button>
      }
    >
      <p className="text-muted">
        It is shown this once. Messages are signed with it, as Standard Webhooks has it:
      </p>
      <Snippet text={secret} />
      <Snippet text={PYTHON} />
    </Dialog>
  );
}
