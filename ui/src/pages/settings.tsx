/** API keys, the signed-in user, and the audit log. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, RefreshCw, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import { call } from "@/api/client";
import { client, keys } from "@/api/queries";
import type { ApiKey, Role } from "@/api/schema";
import { AuditList } from "@/pages/admin/audit";
import { Connectors } from "@/pages/connectors";
import { Limits } from "@/pages/limits";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Dialog } from "@/parts/dialog";
import { Empty, Failure, Skeleton, Snippet } from "@/parts/feedback";
import { Field, Input, Select } from "@/parts/form";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";

export function Page() {
  const { tab } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const { may } = useSession();
  const tabs: [string, string, ReactNode][] = [["you", "Your session", <SignedInUser key="you" />]];
  if (may("keys", "read")) tabs.unshift(["keys", "API keys", <Keys key="keys" />]);
  if (may("connectors", "read"))
    tabs.splice(-1, 0, ["connectors", "Connectors", <Connectors key="connectors" />]);
  tabs.splice(-1, 0, ["limits", "Limits", <Limits key="limits" />]);
  if (may("audit", "read")) tabs.push(["audit", "Audit log", <AuditList key="audit" />]);
  const [active] = tabs.filter(([name]) => name === tab).concat(tabs);
  return (
    <Frame title="Settings">
      <nav aria-label="Settings">
        <ul className="flex gap-1 border-line border-b">
          {tabs.map(([name, label]) => (
            <li key={name}>
              <button
                type="button"
                aria-current={name === active?.[0] ? "page" : undefined}
                onClick={() => void navigate({ to: "/settings", search: { tab: name } })}
                className={`-mb-px h-9 border-b-2 px-2.5 ${name === active?.[0] ? "border-accent font-medium" : "border-transparent text-muted hover:text-text"}`}
              >
                {label}
              </button>
            </li>
          ))}
        </ul>
      </nav>
      {active?.[2]}
    </Frame>
  );
}

function SignedInUser() {
  const { actor, role, tenant_id, scopes } = useSession();
  const facts: [string, string][] = [
    ["Signed in as", actor],
    ["Role", role.replaceAll("_", " ")],
    ["Tenant", tenant_id ?? "none (installation)"],
    ["Scopes", scopes.join(", ") || "all permissions of the role"],
  ];
  return (
    <Panel>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5 px-4 py-3">
        {facts.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-faint">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

function isLive(key: ApiKey): boolean {
  return (
    key.revoked_at === null &&
    (key.expires_at === null || new Date(key.expires_at).getTime() > Date.now())
  );
}

function Keys() {
  const { may } = useSession();
  const query = useQuery(keys());
  const [open, setOpen] = useState<"new" | { act: "revoke" | "rotate"; key: ApiKey } | null>(null);
  const [made, setMade] = useState<string | null>(null);
  const canAct = may("keys", "write");
  const columns: Column<ApiKey>[] = [
    {
      title: "Name",
      isMain: true,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <span className="truncate font-medium">{row.name}</span>
          <code className="truncate font-mono text-faint text-xs">jf_{row.lookup}_…</code>
        </span>
      ),
    },
    { title: "Role", cell: (row) => row.role.replaceAll("_", " ") },
    {
      title: "Scopes",
      isWide: true,
      cell: (row) => (
        <span className="block max-w-40 truncate" title={row.scopes.join(", ")}>
          {row.scopes.join(", ") || "all"}
        </span>
      ),
    },
    {
      title: "Last used",
      isWide: true,
      cell: (row) => (row.last_used_at ? <Ago at={row.last_used_at} /> : "never"),
    },
    { title: "Expires", isWide: true, cell: (row) => <KeyExpiry row={row} /> },
  ];
  if (canAct) {
    columns.push({
      title: "Actions",
      cell: (row) =>
        isLive(row) && (
          <span className="flex justify-end gap-1">
            <Button
              look="quiet"
              icon={RefreshCw}
              label={`Rotate ${row.name}`}
              onClick={() => setOpen({ act: "rotate", key: row })}
            />
            <Button
              look="quiet"
              icon={Trash2}
              label={`Revoke ${row.name}`}
              onClick={() => setOpen({ act: "revoke", key: row })}
            />
          </span>
        ),
    });
  }
  if (query.isPending) return <Skeleton />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Panel
      title="API keys"
      actions={
        canAct && (
          <Button icon={Plus} onClick={() => setOpen("new")}>
            Create key
          </Button>
        )
      }
    >
      {query.data.items.length === 0 ? (
        <Empty title="No API keys yet">
          Create a key to give a service or a person access to this tenant, with one role.
        </Empty>
      ) : (
        <Table
          label="API keys"
          columns={columns}
          rows={query.data.items}
          idOf={(row) => row.id}
          isDim={(row) => !isLive(row)}
        />
      )}
      {open === "new" && <NewKey onClose={() => setOpen(null)} onMade={setMade} />}
      {open !== null && open !== "new" && open.act === "revoke" && (
        <Confirm
          title={`Revoke key ${open.key.name}?`}
          verb="Revoke key"
          isDangerous
          onClose={() => setOpen(null)}
          act={async () => {
            await call("delete", "/api/v1/keys/{key_id}", { path: { key_id: open.key.id } });
            await refresh();
          }}
        >
          <p className="text-muted">
            The server rejects the key within a second. This cannot be undone.
          </p>
        </Confirm>
      )}
      {open !== null && open !== "new" && open.act === "rotate" && (
        <Rotate row={open.key} onClose={() => setOpen(null)} onMade={setMade} />
      )}
      {made && <CreatedKeyDialog text={made} onClose={() => setMade(null)} />}
    </Panel>
  );
}

function KeyExpiry({ row }: { row: ApiKey }) {
  if (row.revoked_at)
    return (
      <span className="text-faint">
        revoked <Ago at={row.revoked_at} />
      </span>
    );
  return row.expires_at ? <Ago at={row.expires_at} /> : <>never</>;
}

function refresh(): Promise<void> {
  return client.invalidateQueries({ queryKey: ["keys"] });
}

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (key: string) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [days, setDays] = useState("90");
  return (
    <Confirm
      title="Create API key"
      verb="Create"
      isReady={name.trim() !== ""}
      onClose={onClose}
      act={async () => {
        const expires =
          days === "" ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString();
        const answer = await call("post", "/api/v1/keys", {
          body: { name: name.trim(), role, scopes: [], expires_at: expires },
        });
        await refresh();
        onMade(answer.key);
      }}
    >
      <Field label="Name" isRequired hint="The person or service that uses the key.">
        {(id) => <Input id={id} value={name} onChange={(event) => setName(event.target.value)} />}
      </Field>
      <Field label="Role">
        {(id) => (
          <Select id={id} value={role} onChange={(event) => setRole(event.target.value as Role)}>
            <option value="viewer">Viewer: read-only</option>
            <option value="tenant_admin">Tenant admin: can act and manage keys</option>
            <option value="worker">Worker: runs jobs</option>
          </Select>
        )}
      </Field>
      <Field label="Expires after (days)" hint="Leave empty for a key that does not expire.">
        {(id) => (
          <Input
            id={id}
            type="number"
            min={1}
            value={days}
            onChange={(event) => setDays(event.target.value)}
          />
        )}
      </Field>
    </Confirm>
  );
}

function Rotate({
  row,
  onClose,
  onMade,
}: {
  row: ApiKey;
  onClose: () => void;
  onMade: (key: string) => void;
}) {
  const [minutes, setMinutes] = useState("60");
  return (
    <Confirm
      title={`Rotate key ${row.name}`}
      verb="Create key"
      onClose={onClose}
      act={async () => {
        const answer = await call("post", "/api/v1/keys/{key_id}/rotate", {
          path: { key_id: row.id },
          body: { overlap_s: Number(minutes || 0) * 60 },
        });
        await refresh();
        onMade(answer.key);
      }}
    >
      <Field label="Old key stays valid for (minutes)">
        {(id) => (
          <Input
            id={id}
            type="number"
            min={0}
            value={minutes}
            onChange={(event) => setMinutes(event.target.value)}
          />
        )}
      </Field>
    </Confirm>
  );
}

function CreatedKeyDialog({ text, onClose }: { text: string; onClose: () => void }) {
  return (
    <Dialog
      title="New API key"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I've saved it
        </Button>
      }
    >
      <p className="text-muted">Copy the key now. You won't be able to see it again.</p>
      <Snippet text={text} />
    </Dialog>
  );
}
