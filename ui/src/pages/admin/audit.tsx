/** The audit log. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useRouterState, useSearch } from "@tanstack/react-router";
import { printShort } from "@/api/json";
import { audit } from "@/api/queries";
import type { AuditEntry } from "@/api/schema";
import { Button } from "@/parts/button";
import { shortId } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";

export function Page() {
  return (
    <Frame
      title="Audit"
      lead="Actions of operators and tenant admins, newest first. Click a value to filter by it."
    >
      <AuditList />
    </Frame>
  );
}

type Filter = { actor?: string; action?: string; target?: string };

export function AuditList() {
  const { actor, action, target } = useSearch({ strict: false }) as Filter;
  const path = useRouterState({ select: (state) => state.location.pathname });
  const navigate = useNavigate();
  const filter: Filter = {
    ...(actor && { actor }),
    ...(action && { action }),
    ...(target && { target }),
  };
  const query = useQuery(audit(filter));
  const narrow = (name: string, value: string | undefined) =>
    void navigate({ to: path, search: (old: Filter) => ({ ...old, [name]: value }) });
  const cell = (name: keyof Filter, value: string | null) =>
    value === null ? (
      "–"
    ) : (
      <button
        type="button"
        onClick={() => narrow(name, value)}
        className="block max-w-60 truncate text-left hover:text-accent"
        title={value}
      >
        {shortId(value)}
      </button>
    );
  const columns: Column<AuditEntry>[] = [
    { title: "Time", cell: (row) => <Ago at={row.at} /> },
    {
      title: "Actor",
      cell: (row) => <span className="font-mono text-xs">{cell("actor", row.actor)}</span>,
    },
    {
      title: "Action",
      cell: (row) => <span className="font-medium">{cell("action", row.action)}</span>,
    },
    { title: "Target", isWide: true, cell: (row) => cell("target", row.target) },
    {
      title: "Details",
      isMain: true,
      isWide: true,
      cell: (row) => (
        <code
          className="block truncate font-mono text-faint text-xs"
          title={printShort(row.detail)}
        >
          {row.detail === null ? "" : printShort(row.detail)}
        </code>
      ),
    },
  ];
  return (
    <Panel>
      {Object.keys(filter).length > 0 && (
        <div className="flex flex-wrap items-center gap-2 border-line border-b px-4 py-2">
          Filtered by
          {Object.entries(filter).map(([name, value]) => (
            <Button
              key={name}
              onClick={() => narrow(name, undefined)}
              label={`Remove filter ${name}: ${value}`}
            >
              {name}: {shortId(value)} ×
            </Button>
          ))}
        </div>
      )}
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="No audit log entries">
          The audit log records cancellations, retries, pauses, and changes of keys and limits.
        </Empty>
      ) : (
        <Table label="Audit log" columns={columns} rows={query.data.items} idOf={(row) => row.id} />
      )}
    </Panel>
  );
}
