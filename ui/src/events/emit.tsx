import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "@/api/client";
import { client } from "@/api/queries";
import { faultOf } from "@/jobs/edited-retry";
import { Confirm } from "@/parts/confirm";
import { Area, Field, Input } from "@/parts/form";

interface Props {
  name?: string;
  data?: string;
  onClose: () => void;
}

/** A form that emits an event and then shows it with its outcomes. */
export function Emit({ name: first = "", data: filled = '{"order": 7}', onClose }: Props) {
  const [name, setName] = useState(first);
  const [data, setData] = useState(filled);
  const navigate = useNavigate();
  const fault = faultOf(data);
  return (
    <Confirm
      title="Emit event"
      verb="Emit"
      isReady={name.trim() !== "" && fault === null}
      onClose={onClose}
      act={async () => {
        const made = await call("post", "/api/v1/events", {
          text: `{"name": ${JSON.stringify(name.trim())}, "data": ${data}}`,
        });
        void client.invalidateQueries({ queryKey: ["events"] });
        void navigate({ to: "/events/$id", params: { id: made.id } });
      }}
    >
      <p className="text-muted">
        Event triggers process this event like any other, and their jobs run.
      </p>
      <Field label="Name" isRequired>
        {(id) => (
          <Input
            id={id}
            placeholder="order.paid"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      <Field label="Data" hint={fault ?? "A JSON object."}>
        {(id) => (
          <Area id={id} rows={6} value={data} onChange={(event) => setData(event.target.value)} />
        )}
      </Field>
    </Confirm>
  );
}
