/**
 * The payload of a trigger's jobs: a form for the definition's schema, or JSON. Both accept
 * template tags.
 */

import { useState } from "react";
import { parse } from "@/api/json";
import type { DefinitionInfo } from "@/api/schema";
import { faultOf } from "@/jobs/edited-retry";
import { Button } from "@/parts/button";
import { Area, Field } from "@/parts/form";
import { Panel } from "@/parts/page";
import { Fields, payloadText, type Schema, startOf, valuesOf } from "@/parts/schema-form";

interface Props {
  info: DefinitionInfo;
  /** The template tags that are available. */
  hint: string;
  text: string;
  onChange: (text: string) => void;
}

export function PayloadPanel({ info, hint, text, onChange }: Props) {
  const schema = (info.parameters ?? {}) as Schema;
  const hasFields = Object.keys(schema.properties ?? {}).length > 0;
  const [values, setValues] = useState(() => (hasFields ? valuesIn(schema, text) : null));
  const isMasked = text.includes("[redacted]");
  const back = hasFields && faultOf(text) === null ? valuesIn(schema, text) : null;
  return (
    <Panel
      title="Payload"
      actions={
        values !== null ? (
          <Button look="quiet" onClick={() => setValues(null)}>
            Edit as JSON
          </Button>
        ) : (
          back !== null && (
            <Button look="quiet" onClick={() => setValues(back)}>
              Edit as form
            </Button>
          )
        )
      }
    >
      <div className="flex flex-col gap-4 p-4">
        <p className="text-muted">
          Enter fixed values, or template tags such as{" "}
          <code className="break-all font-mono text-xs">{`{{ ${hint} }}`}</code>.
        </p>
        {values !== null ? (
          <Fields
            schema={schema}
            values={values}
            onChange={(next) => {
              setValues(next);
              onChange(payloadText(schema, next));
            }}
          />
        ) : (
          <Field label="Payload as JSON" hint={faultOf(text)}>
            {(id) => (
              <Area
                id={id}
                rows={8}
                value={text}
                onChange={(event) => onChange(event.target.value)}
              />
            )}
          </Field>
        )}
        {isMasked && (
          <p className="text-warn">
            Secrets are masked as <code className="font-mono">[redacted]</code> and stay unchanged.
            If you change the payload, enter the secret values again.
          </p>
        )}
      </div>
    </Panel>
  );
}

function valuesIn(schema: Schema, text: string) {
  return valuesOf(schema, parse(text) as Record<string, unknown>);
}

/** The initial payload of a new trigger. */
export function firstPayload(info: DefinitionInfo): string {
  const schema = (info.parameters ?? {}) as Schema;
  return payloadText({ ...schema, required: [] }, startOf(schema));
}
