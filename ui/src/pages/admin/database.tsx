/** The database: findings of the doctor, sizes, and the sessions that block vacuum. */

import { useQuery } from "@tanstack/react-query";
import { CircleCheck, CircleX, TriangleAlert } from "lucide-react";
import { database } from "@/api/queries";
import type { DatabaseState, Finding, HorizonHolder, LockWait, TableStats } from "@/api/schema";
import { short } from "@/jobs/short-count";
import { Failure, Skeleton, Snippet } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { type Column, Count, Table } from "@/parts/table";
import { Ago, duration } from "@/parts/time";

export function Page() {
  const query = useQuery(database());
  if (query.isPending) return <Skeleton rows={10} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  const state = query.data;
  const { used, limit } = state.connections;
  return (
    <Frame
      title="Database"
      lead={`Postgres ${state.version} · JobForge ${state.schema.release} · ${used} of ${limit} connections · ${bytes(sizeOf(state))}`}
    >
      <Findings findings={state.findings} />
      <OldestSnapshots rows={state.horizon} />
      <LockWaits rows={state.lock_waits} />
      <Tables tables={state.tables} />
      <Partitions state={state} />
    </Frame>
  );
}

const LOOKS = {
  ok: { icon: CircleCheck, color: "text-ok", word: "OK:" },
  warning: { icon: TriangleAlert, color: "text-warn", word: "Warning:" },
  failed: { icon: CircleX, color: "text-bad", word: "Failed:" },
};

/** Problems first, each with its fix; checks that passed are summarized below. */
function Findings({ findings }: { findings: Finding[] }) {
  const wrong = findings.filter((each) => each.grade !== "ok");
  const well = findings.filter((each) => each.grade === "ok");
  wrong.sort((one, other) => Number(other.grade === "failed") - Number(one.grade === "failed"));
  return (
    <Panel title={wrong.length === 0 ? "No problems found" : "Doctor findings"}>
      {wrong.length > 0 && (
        <ul>
          {wrong.map((each) => (
            <li
              key={`${each.check}${each.message}`}
              className="flex flex-col border-line border-b px-4 py-2.5"
            >
              <Line finding={each} />
              {each.fix && <Snippet text={each.fix} />}
            </li>
          ))}
        </ul>
      )}
      <ul className="grid gap-x-6 gap-y-1 px-4 py-3 text-muted md:grid-cols-2">
        {well.map((each) => (
          <li key={`${each.check}${each.message}`}>
            <Line finding={each} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Line({ finding }: { finding: Finding }) {
  const { icon: Icon, color, word } = LOOKS[finding.grade];
  return (
    <span className="flex items-start gap-2">
      <Icon size={15} className={`mt-0.5 shrink-0 ${color}`} aria-label={word} />
      <span className="min-w-0 break-words">
        {finding.message} <span className="text-faint text-xs">{finding.check}</span>
      </span>
    </span>
  );
}

/**
 * Transactions with the oldest snapshots. Vacuum cannot remove dead rows that are newer than these.
 */
function OldestSnapshots({ rows }: { rows: HorizonHolder[] }) {
  const columns: Column<HorizonHolder>[] = [
    {
      title: "Session",
      isMain: true,
      cell: (row) => (
        <SessionName name={`${row.kind} ${row.name}`} about={[row.login, row.program, row.state]} />
      ),
    },
    {
      title: "Open for",
      align: "right",
      cell: (row) => (row.seconds === null ? "–" : duration(row.seconds * 1000)),
    },
    { title: "Age in transactions", isWide: true, align: "right", cell: (row) => short(row.age) },
    {
      title: "Fix",
      isWide: true,
      cell: (row) => (
        <span className="flex min-w-96 max-w-xl">
          <Snippet text={row.fix} />
        </span>
      ),
    },
  ];
  return (
    <Panel title="Transactions blocking vacuum">
      {rows.length === 0 ? (
        <p className="px-4 py-3 text-muted">None. Vacuum can remove all dead rows.</p>
      ) : (
        <Table
          label="Transactions blocking vacuum"
          columns={columns}
          rows={rows}
          idOf={(row) => `${row.kind} ${row.name}`}
        />
      )}
    </Panel>
  );
}

function LockWaits({ rows }: { rows: LockWait[] }) {
  const columns: Column<LockWait>[] = [
    {
      title: "Waiting session",
      isMain: true,
      cell: (row) => <SessionName name={`session ${row.pid}`} about={[row.login, row.program]} />,
    },
    { title: "Waiting for", align: "right", cell: (row) => duration(row.seconds * 1000) },
    {
      title: "Blocked by",
      cell: (row) =>
        row.holder === 0 ? (
          "a prepared transaction"
        ) : (
          <SessionName
            name={`session ${row.holder}`}
            about={[row.holder_login, row.holder_program, row.holder_state]}
          />
        ),
    },
  ];
  return (
    <Panel title="Lock waits">
      {rows.length === 0 ? (
        <p className="px-4 py-3 text-muted">None. No session waits for a lock.</p>
      ) : (
        <Table
          label="Lock waits"
          columns={columns}
          rows={rows}
          idOf={(row) => `${row.pid} ${row.holder}`}
        />
      )}
    </Panel>
  );
}

function SessionName({ name, about }: { name: string; about: (string | null)[] }) {
  return (
    <span className="flex min-w-0 flex-col">
      <span className="truncate font-medium">{name}</span>
      <span className="truncate text-muted text-xs">{about.filter(Boolean).join(" · ")}</span>
    </span>
  );
}

interface Whole extends TableStats {
  parts: number;
}

/** Merge the partitions of each table into one row. */
function joinPartitions(tables: TableStats[]): Whole[] {
  const found = new Map<string, Whole>();
  for (const each of tables) {
    const name = each.name.replace(/_(\d{8}|default)$/, "");
    const old = found.get(name);
    found.set(name, {
      name,
      bytes: each.bytes + (old?.bytes ?? 0),
      live: each.live + (old?.live ?? 0),
      dead: each.dead + (old?.dead ?? 0),
      vacuumed_at: maxTime(each.vacuumed_at, old?.vacuumed_at ?? null),
      has_autovacuum: each.has_autovacuum && (old?.has_autovacuum ?? true),
      parts: 1 + (old?.parts ?? 0),
    });
  }
  return [...found.values()].sort((one, other) => other.bytes - one.bytes);
}

function maxTime(one: string | null, other: string | null): string | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}

function Tables({ tables }: { tables: TableStats[] }) {
  const rows = joinPartitions(tables);
  const largest = Math.max(1, ...rows.map((row) => row.bytes));
  const columns: Column<Whole>[] = [
    {
      title: "Table",
      isMain: true,
      by: (row) => row.name,
      cell: (row) => (
        <span className="block truncate">
          <code className="font-mono text-xs">{row.name}</code>
          {row.parts > 1 && <span className="text-faint text-xs"> {row.parts} partitions</span>}
        </span>
      ),
    },
    {
      title: "Size with indexes",
      align: "right",
      by: (row) => row.bytes,
      cell: (row) => (
        <span className="flex items-center justify-end gap-2">
          <span className="hidden h-1.5 w-24 overflow-hidden rounded-full bg-raised sm:block">
            <span
              className="block h-full bg-run"
              style={{ width: `${(100 * row.bytes) / largest}%` }}
            />
          </span>
          <span className="num w-16 text-right">{bytes(row.bytes)}</span>
        </span>
      ),
    },
    {
      title: "Rows",
      isWide: true,
      align: "right",
      by: (row) => row.live,
      cell: (row) => <Count of={row.live} text={short(row.live)} />,
    },
    {
      title: "Dead rows",
      align: "right",
      by: (row) => row.dead,
      cell: (row) => <Dead row={row} />,
    },
    {
      title: "Last vacuum",
      isWide: true,
      align: "right",
      by: (row) => row.vacuumed_at,
      cell: (row) =>
        row.has_autovacuum ? (
          <Ago at={row.vacuumed_at} />
        ) : (
          <span className="font-medium text-bad">autovacuum off</span>
        ),
    },
  ];
  return (
    <Panel title="Tables">
      <Table label="Tables" columns={columns} rows={rows} idOf={(row) => row.name} />
    </Panel>
  );
}

const MANY = 1_000;

function Dead({ row }: { row: TableStats }) {
  const isBad = row.dead > MANY && row.dead > row.live;
  return (
    <span className={isBad ? "font-medium text-warn" : ""}>
      <Count of={row.dead} text={short(row.dead)} />
    </span>
  );
}

function Partitions({ state }: { state: DatabaseState }) {
  return (
    <Panel title="Schema and history">
      <ul className="grid gap-x-6 gap-y-1 px-4 py-3 text-muted md:grid-cols-2">
        <li>
          Last migration{" "}
          <code className="font-mono text-xs">{state.schema.migration ?? "none"}</code>
        </li>
        {state.history.map((each) => (
          <li key={each.table}>
            <code className="font-mono text-xs">{each.table}</code> has partitions for the next{" "}
            {plural(each.days_ahead, "day")}
            {each.has_default_rows ? ", and rows in the default partition" : ""}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function sizeOf(state: DatabaseState): number {
  return state.tables.reduce((sum, each) => sum + each.bytes, 0);
}

function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  const value = count / 1024 ** step;
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}
