/**
 * A form generated from a JSON Schema: fields for simple types, JSON for all others. Values are
 * strings, so that numbers are sent as typed.
 */

import { print } from "@/api/json";
import { Area, Check, Field, Input, Select } from "@/parts/form";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  anyOf?: Schema[];
  format?: string;
  examples?: unknown[];
  $ref?: string;
  $defs?: Record<string, Schema>;
}

/** The text of each field. A field without text omits its member. */
export type Values = Record<string, string>;

/** A template tag, which may stand for a value of any type. */
const TAG = /^\s*\{\{.*\}\}\s*$/;

type Kind = "text" | "number" | "flag" | "choice" | "json";

export function startOf(schema: Schema): Values {
  const values: Values = {};
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    if (each.default === undefined || each.default === null) continue;
    values[name] = kindOf(each, schema) === "text" ? String(each.default) : print(each.default);
  }
  return values;
}

/**
 * Return the field values of an existing payload, or null if the form cannot represent all of it.
 */
export function valuesOf(schema: Schema, payload: Record<string, unknown>): Values | null {
  const values: Values = {};
  for (const [name, value] of Object.entries(payload)) {
    const each = schema.properties?.[name];
    if (each === undefined) return null;
    const kind = kindOf(each, schema);
    if (kind === "text" && typeof value !== "string") return null;
    if ((kind === "flag" || kind === "choice") && TAG.test(String(value))) return null;
    const isText = typeof value === "string" && (kind === "text" || TAG.test(value));
    values[name] = isText ? value : print(value);
  }
  return values;
}

export function payloadText(schema: Schema, values: Values): string {
  const members: string[] = [];
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    const value = values[name];
    const kind = kindOf(each, schema);
    const isRequired = schema.required?.includes(name) ?? false;
    if (value === undefined || (value === "" && (kind !== "text" || !isRequired))) {
      if (isRequired && kind === "text") members.push(`${JSON.stringify(name)}: ""`);
      continue;
    }
    const isText = kind === "text" || TAG.test(value);
    members.push(`${JSON.stringify(name)}: ${isText ? JSON.stringify(value) : value}`);
  }
  return `{${members.join(", ")}}`;
}

export function Fields({
  schema,
  values,
  onChange,
}: {
  schema: Schema;
  values: Values;
  onChange: (values: Values) => void;
}) {
  return (
    <>
      {members(schema).map(([name, each]) => (
        <FieldRow
          key={name}
          name={name}
          schema={resolveSchema(each, schema)}
          kind={kindOf(each, schema)}
          isRequired={schema.required?.includes(name) ?? false}
          value={values[name] ?? ""}
          onChange={(value) => onChange({ ...values, [name]: value })}
        />
      ))}
    </>
  );
}

/** Required members first. Postgres does not preserve the order of members. */
function members(schema: Schema): [string, Schema][] {
  const isOptional = ([name]: [string, Schema]) => !(schema.required?.includes(name) ?? false);
  return Object.entries(schema.properties ?? {}).sort(
    (one, other) => Number(isOptional(one)) - Number(isOptional(other)),
  );
}

interface OneProps {
  name: string;
  schema: Schema;
  kind: Kind;
  isRequired: boolean;
  value: string;
  onChange: (value: string) => void;
}

function FieldRow({ name, schema, kind, isRequired, value, onChange }: OneProps) {
  if (kind === "flag") {
    return (
      <div>
        <Check
          label={name}
          checked={value === "true"}
          onChange={(event) => onChange(String(event.target.checked))}
        />
        {schema.description && <p className="text-faint text-xs">{schema.description}</p>}
      </div>
    );
  }
  return (
    <Field label={name} isRequired={isRequired} hint={hintOf(schema, kind)}>
      {(id) => {
        if (kind === "choice") {
          return (
            <Select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
              <option value="" />
              {schema.enum?.map((each) => (
                <option key={String(each)} value={print(each)}>
                  {String(each)}
                </option>
              ))}
            </Select>
          );
        }
        if (kind === "json") {
          return (
            <Area
              id={id}
              rows={3}
              value={value}
              onChange={(event) => onChange(event.target.value)}
            />
          );
        }
        return (
          <Input
            id={id}
            inputMode={kind === "number" ? "decimal" : "text"}
            required={isRequired}
            pattern={
              kind === "number" ? "-?\\d+(\\.\\d+)?([eE][+\\-]?\\d+)?|\\{\\{.*\\}\\}" : undefined
            }
            value={value}
            onChange={(event) => onChange(event.target.value)}
          />
        );
      }}
    </Field>
  );
}

function hintOf(schema: Schema, kind: Kind): string | null {
  const words = [schema.description, kind === "json" ? "JSON" : null, schema.format];
  return words.filter(Boolean).join(" · ") || null;
}

/** Resolve references and remove null, which an empty field represents. */
function resolveSchema(schema: Schema, root: Schema): Schema {
  const name = /^#\/\$defs\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  const found = name === undefined ? undefined : root.$defs?.[name];
  if (found) return { ...resolveSchema(found, root), ...schema };
  const others = schema.anyOf?.filter((each) => each.type !== "null");
  if (others?.length === 1 && others[0]) return { ...resolveSchema(others[0], root), ...schema };
  return schema;
}

function kindOf(given: Schema, root: Schema): Kind {
  const schema = resolveSchema(given, root);
  if (schema.enum) return "choice";
  const types = [schema.type ?? []].flat().filter((each) => each !== "null");
  if (types.length !== 1) return "json";
  if (types[0] === "string") return "text";
  if (types[0] === "integer" || types[0] === "number") return "number";
  return types[0] === "boolean" ? "flag" : "json";
}
