/** Statistics by definition, the one with the longest total run time first. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { statistics } from "@/api/queries";
import type { Statistic } from "@/api/schema";
import { failuresOf } from "@/charts/ranges";
import { useChartParams } from "@/charts/url-params";
import { short } from "@/jobs/short-count";
import { Button } from "@/parts/button";
import { Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { duration } from "@/parts/time";

const FEW = 8;

export function ByDefinition({ isWhole = false }: { isWhole?: boolean }) {
  const { range, definition } = useChartParams();
  const { data } = useQuery(statistics(range, { by: "definition", isWhole: true }));
  const [isLong, setLong] = useState(false);
  const rows = [...(data?.items ?? [])].sort((one, other) => other.run_ms - one.run_ms);
  const all = rows.reduce((sum, row) => sum + row.run_ms, 0);
  const columns: Column<Statistic>[] = [
    {
      title: "Definition",
      isMain: true,
      by: (row) => row.definition,
      cell: (row) => <Name row={row} isChosen={row.definition === definition} />,
    },
    {
      title: "Attempts",
      align: "right",
      by: (row) => row.attempts,
      cell: (row) => <Count row={row} isWhole={isWhole} />,
    },
    {
      title: "Failed",
      align: "right",
      by: (row) => failuresOf(row) / row.attempts,
      cell: (row) => <Failed row={row} isWhole={isWhole} />,
    },
    timeColumn("Wait p50", (row) => row.wait_p50_ms),
    timeColumn("Wait p95", (row) => row.wait_p95_ms),
    timeColumn("Run p50", (row) => row.run_p50_ms),
    { ...timeColumn("Run p95", (row) => row.run_p95_ms), isWide: false },
    {
      title: "Share of run time",
      isWide: true,
      by: (row) => row.run_ms,
      cell: (row) => <Share share={all === 0 ? 0 : row.run_ms / all} />,
    },
  ];
  return (
    <Panel
      title="By definition"
      actions={
        rows.length > FEW && (
          <Button look="quiet" onClick={() => setLong(!isLong)}>
            {isLong ? "Show fewer" : `Show all ${rows.length}`}
          </Button>
        )
      }
    >
      {data && rows.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          No attempts in this period. New attempts appear here within 30 seconds.
        </p>
      ) : (
        <Table
          label="By definition"
          columns={columns}
          rows={isLong ? rows : rows.slice(0, FEW)}
          idOf={(row) => row.definition ?? ""}
        />
      )}
    </Panel>
  );
}

function timeColumn(title: string, by: (row: Statistic) => number | null): Column<Statistic> {
  return { title, by, isWide: true, align: "right", cell: (row) => formatTime(by(row)) };
}

/** Select a definition for the charts; a second click selects all definitions. */
function Name({ row, isChosen }: { row: Statistic; isChosen: boolean }) {
  return (
    <Link
      to="."
      search={(old: Record<string, string | undefined>) => ({
        ...old,
        definition: isChosen ? undefined : (row.definition ?? undefined),
      })}
      replace
      aria-current={isChosen ? "true" : undefined}
      title={
        isChosen ? "Show all definitions in the charts" : "Show only this definition in the charts"
      }
      className={`block truncate font-medium hover:text-accent ${isChosen ? "text-accent" : ""}`}
    >
      {row.definition}
    </Link>
  );
}

function Count({ row, isWhole }: { row: Statistic; isWhole: boolean }) {
  if (isWhole) return <>{short(row.attempts)}</>;
  return (
    <Link
      to="/jobs"
      search={{ definition: row.definition ?? "" }}
      className="hover:text-accent"
      title={`${row.attempts} attempts`}
    >
      {short(row.attempts)}
    </Link>
  );
}

function Failed({ row, isWhole }: { row: Statistic; isWhole: boolean }) {
  const failed = failuresOf(row);
  if (failed === 0) return <span className="text-faint">–</span>;
  const text = percent(failed / row.attempts);
  const title = `${failed} of ${row.attempts} attempts failed, ${row.dead} of them permanently`;
  if (isWhole)
    return (
      <span className="text-bad" title={title}>
        {text}
      </span>
    );
  return (
    <Link
      to="/jobs"
      search={{ definition: row.definition ?? "", state: "failed,dead" }}
      className="text-bad hover:underline"
      title={title}
    >
      {text}
    </Link>
  );
}

function Share({ share }: { share: number }) {
  return (
    <span className="flex items-center gap-2">
      <span className="h-1.5 w-20 overflow-hidden rounded-full bg-raised">
        <span className="block h-full bg-run" style={{ width: `${share * 100}%` }} />
      </span>
      <span className="num w-9 text-right text-muted text-xs">{percent(share)}</span>
    </span>
  );
}

function percent(share: number): string {
  const value = share * 100;
  return value > 0 && value < 1 ? "< 1%" : `${Math.round(value)}%`;
}

function formatTime(ms: number | null): string {
  return ms === null ? "–" : duration(ms);
}
