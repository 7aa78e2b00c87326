/**
 * The connector configurations for requests to other services: URL, headers, and secrets, which are
 * never shown again.
 */

import { useQuery } from "@tanstack/react-query";
import { Pencil, Plus, Trash2, X } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, connectors } from "@/api/queries";
import type { ConnectorConfig } from "@/api/schema";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Field, Input, Select } from "@/parts/form";
import { originOf } from "@/parts/origin";
import { Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";

const CODE = `connector.http.request.enqueue(
    config="billing", method="POST", path="invoices", json={"order": 7}
)`;

export function Connectors() {
  const { may } = useSession();
  const query = useQuery(connectors());
  const [open, setOpen] = useState<
    "new" | { act: "edit" | "delete"; config: ConnectorConfig } | null
  >(null);
  const canAct = may("connectors", "write");
  const columns: Column<ConnectorConfig>[] = [
    {
      title: "Name",
      isMain: true,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <span className="truncate font-medium">{row.name}</span>
          <span className="truncate text-faint text-xs">{String(row.settings.url ?? "")}</span>
        </span>
      ),
    },
    {
      title: "Headers",
      isWide: true,
      cell: (row) => (
        <span className="block max-w-48 truncate">
          {Object.keys((row.settings.headers ?? {}) as object).join(", ") || "none"}
        </span>
      ),
    },
    {
      title: "Secrets",
      isWide: true,
      cell: (row) => (
        <span className="block max-w-48 truncate">
          {Object.entries(row.secrets)
            .map(([name, source]) => `${name} (${source})`)
            .join(", ") || "none"}
        </span>
      ),
    },
    {
      title: "Changed",
      isWide: true,
      cell: (row) => <Ago at={row.updated_at} />,
    },
  ];
  if (canAct) {
    columns.push({
      title: "Actions",
      cell: (row) => (
        <span className="flex justify-end gap-1">
          <Button
            look="quiet"
            icon={Pencil}
            label={`Edit ${row.name}`}
            onClick={() => setOpen({ act: "edit", config: row })}
          />
          <Button
            look="quiet"
            icon={Trash2}
            label={`Delete ${row.name}`}
            onClick={() => setOpen({ act: "delete", config: row })}
          />
        </span>
      ),
    });
  }
  if (query.isPending) return <Skeleton />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Panel
      title="Connectors"
      actions={
        canAct && (
          <Button icon={Plus} onClick={() => setOpen("new")}>
            Create connector
          </Button>
        )
      }
    >
      {query.data.items.length === 0 ? (
        <Empty title="No connectors yet" code={CODE}>
          Create a connector to let jobs call another service by name, without access to its
          secrets:
        </Empty>
      ) : (
        <Table
          label="Connectors"
          columns={columns}
          rows={query.data.items}
          idOf={(row) => row.id}
        />
      )}
      {open === "new" && <Form config={null} onClose={() => setOpen(null)} />}
      {open !== null && open !== "new" && open.act === "edit" && (
        <Form config={open.config} onClose={() => setOpen(null)} />
      )}
      {open !== null && open !== "new" && open.act === "delete" && (
        <Confirm
          title={`Delete connector ${open.config.name}?`}
          verb="Delete"
          isDangerous
          onClose={() => setOpen(null)}
          act={async () => {
            await call("delete", "/api/v1/connectors/{config_id}", {
              path: { config_id: open.config.id },
            });
            await refresh();
          }}
        >
          <p className="text-muted">This also deletes its secrets. Jobs that use it will fail.</p>
        </Confirm>
      )}
    </Panel>
  );
}

function refresh(): Promise<void> {
  return client.invalidateQueries({ queryKey: ["connectors"] });
}

interface Secret {
  name: string;
  /** "kept": a stored secret that stays unchanged. */
  kind: "kept" | "value" | "from";
  text: string;
}

function Form({ config, onClose }: { config: ConnectorConfig | null; onClose: () => void }) {
  const [name, setName] = useState(config?.name ?? "");
  const [url, setUrl] = useState(String(config?.settings.url ?? "https://"));
  const [headers, setHeaders] = useState<[string, string][]>(
    Object.entries(
      (config?.settings.headers ?? { Authorization: "Bearer {{secret.token}}" }) as Record<
        string,
        string
      >,
    ),
  );
  const [secrets, setSecrets] = useState<Secret[]>(
    config
      ? Object.keys(config.secrets).map((each) => ({ name: each, kind: "kept", text: "" }))
      : [{ name: "token", kind: "value", text: "" }],
  );

  const isMoved = config !== null && originOf(url) !== originOf(String(config.settings.url ?? ""));
  const rows = isMoved
    ? secrets.map((each): Secret => (each.kind === "kept" ? { ...each, kind: "value" } : each))
    : secrets;

  async function save() {
    const settings = {
      url: url.trim(),
      headers: Object.fromEntries(headers.filter(([each]) => each.trim() !== "")),
    };
    const given = Object.fromEntries(
      rows
        .filter((each) => each.kind !== "kept" && each.name !== "")
        .map((each) => [
          each.name,
          each.kind === "value" ? { value: each.text } : { from: each.text },
        ]),
    );
    if (config === null) {
      await call("post", "/api/v1/connectors", {
        body: { name: name.trim(), connector: "http.request", settings, secrets: given },
      });
    } else {
      const gone = Object.keys(config.secrets)
        .filter((old) => !rows.some((each) => each.name === old))
        .map((old) => [old, null]);
      await call("patch", "/api/v1/connectors/{config_id}", {
        path: { config_id: config.id },
        body: { name: name.trim(), settings, secrets: { ...given, ...Object.fromEntries(gone) } },
      });
    }
    await refresh();
  }

  return (
    <Confirm
      title={config ? `Edit ${config.name}` : "Create connector"}
      verb={config ? "Save" : "Create"}
      isReady={name.trim() !== "" && url.trim() !== ""}
      onClose={onClose}
      act={save}
    >
      <Field
        label="Name"
        isRequired
        hint="Jobs of connector.http.request refer to the connector by this name."
      >
        {(id) => (
          <Input
            id={id}
            required
            placeholder="billing"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      <Field label="URL" isRequired hint="Jobs can send requests to this origin only.">
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
      <Headers rows={headers} onChange={setHeaders} />
      {isMoved && rows.length > 0 && (
        <p className="text-warn">
          The URL has another origin. Enter each secret again or remove it.
        </p>
      )}
      <Secrets rows={rows} onChange={setSecrets} />
    </Confirm>
  );
}

interface HeadersProps {
  rows: [string, string][];
  onChange: (rows: [string, string][]) => void;
}

function Headers({ rows, onChange }: HeadersProps) {
  const change = (index: number, row: [string, string]) =>
    onChange(rows.map((old, at) => (at === index ? row : old)));
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 font-medium">Headers</legend>
      {rows.map(([name, value], index) => (
        <div key={index} className="flex gap-1.5">
          <Input
            aria-label={`Header ${index + 1}`}
            className="!w-36 shrink-0"
            value={name}
            onChange={(event) => change(index, [event.target.value, value])}
          />
          <Input
            aria-label={`Value of header ${index + 1}`}
            className="font-mono"
            value={value}
            onChange={(event) => change(index, [name, event.target.value])}
          />
          <Remove what={`header ${index + 1}`} act={() => onChange(removeAt(rows, index))} />
        </div>
      ))}
      <Button icon={Plus} className="self-start" onClick={() => onChange([...rows, ["", ""]])}>
        Add header
      </Button>
      <p className="text-faint text-xs">
        <code className="font-mono">{"{{secret.token}}"}</code> is replaced with the secret of that
        name.
      </p>
    </fieldset>
  );
}

function Secrets({ rows, onChange }: { rows: Secret[]; onChange: (rows: Secret[]) => void }) {
  const change = (index: number, changed: Partial<Secret>) =>
    onChange(rows.map((row, at) => (at === index ? { ...row, ...changed } : row)));
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 font-medium">Secrets</legend>
      {rows.map((row, index) => (
        <div key={index} className="flex gap-1.5">
          <Input
            aria-label={`Secret ${index + 1}`}
            className="!w-24 shrink-0"
            disabled={row.kind === "kept"}
            value={row.name}
            onChange={(event) => change(index, { name: event.target.value })}
          />
          <Select
            aria-label={`Type of secret ${index + 1}`}
            className="!w-32 shrink-0"
            value={row.kind}
            onChange={(event) => change(index, { kind: event.target.value as Secret["kind"] })}
          >
            {row.kind === "kept" && <option value="kept">unchanged</option>}
            <option value="value">value</option>
            <option value="from">reference</option>
          </Select>
          {row.kind !== "kept" && (
            <Input
              aria-label={
                row.kind === "value"
                  ? `Value of secret ${index + 1}`
                  : `Reference of secret ${index + 1}`
              }
              type={row.kind === "value" ? "password" : "text"}
              autoComplete="new-password"
              placeholder={row.kind === "value" ? "" : "env:BILLING_TOKEN"}
              className="font-mono"
              value={row.text}
              onChange={(event) => change(index, { text: event.target.value })}
            />
          )}
          <Remove what={`secret ${index + 1}`} act={() => onChange(removeAt(rows, index))} />
        </div>
      ))}
      <Button
        icon={Plus}
        className="self-start"
        onClick={() => onChange([...rows, { name: "", kind: "value", text: "" }])}
      >
        Add secret
      </Button>
      <p className="text-faint text-xs">
        Values are encrypted before they are stored, and are never shown again. A reference names a
        secret that the operator stores on the workers.
      </p>
    </fieldset>
  );
}

function Remove({ what, act }: { what: string; act: () => void }) {
  return (
    <Button look="quiet" icon={X} label={`Remove ${what}`} className="ml-auto !h-8" onClick={act} />
  );
}

function removeAt<T>(rows: T[], index: number): T[] {
  return rows.filter((_, at) => at !== index);
}
