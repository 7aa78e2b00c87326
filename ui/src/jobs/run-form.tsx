/**
 * Creates a job with a form of its payload schema. Input is sent as typed, so that long numbers are
 * not rounded.
 */

import { useNavigate } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import type { DefinitionInfo } from "@/api/schema";
import { faultOf } from "@/jobs/edited-retry";
import { Button } from "@/parts/button";
import { FormError } from "@/parts/feedback";
import { Area, Field, Input, Select } from "@/parts/form";
import { Panel } from "@/parts/page";
import { Fields, payloadText, type Schema, startOf } from "@/parts/schema-form";
import { toast } from "@/parts/toasts";

export function RunForm({ info }: { info: DefinitionInfo }) {
  const schema = (info.parameters ?? {}) as Schema;
  const hasFields = Object.keys(schema.properties ?? {}).length > 0;
  const [values, setValues] = useState(() => startOf(schema));
  const [raw, setRaw] = useState<string | null>(hasFields || info.parameters ? null : "{}");
  const [delay, setDelay] = useState("");
  const [priority, setPriority] = useState("0");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const navigate = useNavigate();
  const text = raw ?? payloadText(schema, values);
  const fault = raw === null ? null : faultOf(raw);

  async function submit() {
    setBusy(true);
    setError(null);
    const options = [
      `"definition": "${info.key}@${info.version}"`,
      `"payload": ${text}`,
      `"priority": ${Number(priority) || 0}`,
      ...(delay === "" ? [] : [`"delay_s": ${Number(delay)}`]),
    ];
    try {
      const made = await call("post", "/api/v1/jobs", { text: `{${options.join(", ")}}` });
      toast("Job created.");
      void navigate({ to: "/jobs/$id", params: { id: made.id } });
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  }

  return (
    <Panel
      title="Run job"
      actions={
        <Button
          look="quiet"
          onClick={() => setRaw(raw === null ? text : hasFields || info.parameters ? null : raw)}
        >
          {raw === null ? "Edit as JSON" : "Edit as form"}
        </Button>
      }
    >
      <form
        className="flex flex-col gap-4 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {raw === null ? (
          hasFields ? (
            <Fields schema={schema} values={values} onChange={setValues} />
          ) : (
            <p className="text-muted">This definition has no parameters.</p>
          )
        ) : (
          <Field label="Payload" hint={fault}>
            {(id) => (
              <Area
                id={id}
                rows={10}
                value={raw}
                onChange={(event) => setRaw(event.target.value)}
              />
            )}
          </Field>
        )}
        <div className="grid grid-cols-2 gap-4">
          <Field label="Start">
            {(id) => (
              <Select id={id} value={delay} onChange={(event) => setDelay(event.target.value)}>
                <option value="">Now</option>
                <option value="60">In 1 minute</option>
                <option value="3600">In 1 hour</option>
                <option value="86400">In 1 day</option>
              </Select>
            )}
          </Field>
          <Field label="Priority" hint="Jobs with a higher priority run first.">
            {(id) => (
              <Input
                id={id}
                type="number"
                value={priority}
                onChange={(event) => setPriority(event.target.value)}
              />
            )}
          </Field>
        </div>
        <FormError error={error} />
        <Button
          type="submit"
          look="primary"
          icon={Play}
          className="self-start"
          disabled={isBusy || fault !== null}
        >
          Run
        </Button>
      </form>
    </Panel>
  );
}
