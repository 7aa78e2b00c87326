/** The job list. The URL stores the view. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowDownNarrowWide, ArrowUpNarrowWide, Columns3, Download, Link2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { summary } from "@/api/queries";
import { BulkBar } from "@/jobs/bulk";
import { COLUMNS, chooseColumns, chosenColumns } from "@/jobs/columns";
import { formatFilter, type JobFilter, readFilter } from "@/jobs/filter";
import { FilterBox } from "@/jobs/filter-box";
import { type JobOrder, useJobList } from "@/jobs/list";
import { short } from "@/jobs/short-count";
import { LOOKS, STATES } from "@/jobs/states";
import { JobTable } from "@/jobs/table";
import { Views } from "@/jobs/views";
import { Button } from "@/parts/button";
import { copy } from "@/parts/copy";
import { Dialog } from "@/parts/dialog";
import { saveCsv, saveJson } from "@/parts/export";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Check } from "@/parts/form";
import { Menu } from "@/parts/menu";
import { Page as Frame } from "@/parts/page";
import { toast } from "@/parts/toasts";
import { useSession } from "@/session";

const DAY_S = 86_400;

export function Page() {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const filter = readFilter(search);
  const order = search.order === "oldest" ? "oldest" : "newest";
  return <Jobs key={`${formatFilter(filter)} ${order}`} filter={filter} order={order} />;
}

function Jobs({ filter, order }: { filter: JobFilter; order: JobOrder }) {
  const navigate = useNavigate();
  const { may } = useSession();
  const list = useJobList(filter, order);
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const [isChoosing, setChoosing] = useState(false);
  const canAct = may("jobs", "write");

  function show(next: JobFilter, by: JobOrder) {
    void navigate({ to: "/jobs", search: { ...next, order: by === "oldest" ? by : undefined } });
  }
  const setFilter = (next: JobFilter) => show(next, order);
  function clear() {
    setSelected(new Set());
    setAll(false);
  }

  return (
    <Frame
      title="Jobs"
      actions={
        <>
          <Views filter={filter} />
          <Button
            look="quiet"
            icon={Link2}
            label="Copy link to this view"
            onClick={() => void copy(location.href).then(() => toast("Link copied."))}
          />
          <Button
            look="quiet"
            icon={Columns3}
            label="Select columns"
            onClick={() => setChoosing(true)}
          />
          <Menu
            label="Export"
            trigger={(props) => (
              <Button look="quiet" icon={Download} label="Export loaded jobs" {...props} />
            )}
            items={[
              { label: "Export as CSV", act: () => saveCsv("jobs", list.rows) },
              { label: "Export as JSON", act: () => saveJson("jobs", list.rows) },
            ]}
          />
        </>
      }
    >
      <div className="flex gap-2">
        <FilterBox
          filter={filter}
          onFilter={setFilter}
          onJob={(id) => void navigate({ to: "/jobs/$id", params: { id } })}
        />
        <Button
          className="h-9 rounded-lg"
          icon={order === "newest" ? ArrowDownNarrowWide : ArrowUpNarrowWide}
          onClick={() => show(filter, order === "newest" ? "oldest" : "newest")}
        >
          <span className="max-sm:sr-only">
            {order === "newest" ? "Newest first" : "Oldest first"}
          </span>
        </Button>
      </div>
      <StateTabs filter={filter} onFilter={setFilter} />
      {list.isPending ? (
        <Skeleton rows={12} />
      ) : list.isError ? (
        <Failure error={list.error} onRetry={() => void list.refetch()} />
      ) : list.rows.length === 0 ? (
        <NoJobs filter={filter} />
      ) : (
        <JobTable
          list={list}
          selected={selected}
          canSelect={canAct}
          onSelect={(next) => {
            setSelected(next);
            setAll(false);
          }}
        />
      )}
      {canAct && selected.size > 0 && (
        <BulkBar
          selected={selected}
          filter={filter}
          isAll={isAll}
          onAll={setAll}
          onClear={clear}
          onDone={() => {
            clear();
            void list.refresh();
          }}
        />
      )}
      {isChoosing && <ColumnDialog onClose={() => setChoosing(false)} />}
    </Frame>
  );
}

/** Counts are known by queue and state only, so they are hidden for other filters. */
function StateTabs({
  filter,
  onFilter,
}: {
  filter: JobFilter;
  onFilter: (filter: JobFilter) => void;
}) {
  const { data } = useQuery(summary(DAY_S));
  const { state, queue, ...others } = filter;
  const isCounted = Object.keys(others).length === 0;
  const counts = new Map<string, number>();
  for (const line of data?.items ?? []) {
    if (queue === undefined || line.queue === queue) {
      counts.set(line.state, (counts.get(line.state) ?? 0) + line.jobs);
    }
  }
  const shown = STATES.filter(
    (each) => each !== "canceling" || (counts.get(each) ?? 0) > 0 || state === each,
  );
  return (
    <nav aria-label="States" className="-mx-4 overflow-x-auto px-4 lg:mx-0 lg:px-0">
      <ul className="flex min-w-max gap-1 border-line border-b">
        <Tab
          label="All"
          isActive={state === undefined}
          onClick={() => onFilter(withoutState(filter))}
        />
        {shown.map((each) => (
          <Tab
            key={each}
            label={LOOKS[each]?.label ?? each}
            isActive={state === each}
            count={isCounted && each !== "failed" ? (counts.get(each) ?? 0) : undefined}
            isEnded={each === "succeeded" || each === "canceled"}
            onClick={() => onFilter({ ...filter, state: each })}
          />
        ))}
      </ul>
    </nav>
  );
}

function Tab({
  label,
  count,
  isActive,
  isEnded = false,
  onClick,
}: {
  label: string;
  count?: number | undefined;
  isActive: boolean;
  isEnded?: boolean;
  onClick: () => void;
}) {
  const element = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isActive) element.current?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [isActive]);
  return (
    <li>
      <button
        ref={element}
        type="button"
        aria-current={isActive ? "page" : undefined}
        onClick={onClick}
        title={isEnded ? "Finished in the last 24 hours" : undefined}
        className={`-mb-px flex h-9 items-center gap-1.5 whitespace-nowrap border-b-2 px-2.5 ${isActive ? "border-accent font-medium text-text" : "border-transparent text-muted hover:text-text"}`}
      >
        {label}
        {count !== undefined && <span className="num text-faint text-xs">{short(count)}</span>}
      </button>
    </li>
  );
}

function NoJobs({ filter }: { filter: JobFilter }) {
  if (Object.keys(filter).length > 0) {
    return (
      <Empty title="No matching jobs">
        Remove a filter, or select <em>All</em>.
      </Empty>
    );
  }
  return (
    <Empty
      title="No jobs yet"
      code={"jobforge enqueue send_welcome to=ada@example.com name=Ada --wait"}
    >
      Create a job in your application, over HTTP, from SQL, or on the command line:
    </Empty>
  );
}

function ColumnDialog({ onClose }: { onClose: () => void }) {
  const chosen = chosenColumns.use();
  const current =
    chosen ?? new Set(COLUMNS.filter((each) => !each.isRoomy).map((each) => each.name));
  return (
    <Dialog title="Columns" onClose={onClose} width="max-w-xs">
      <div className="flex flex-col gap-2">
        {COLUMNS.map((column) => (
          <Check
            key={column.name}
            label={column.title}
            checked={current.has(column.name)}
            disabled={column.name === "job"}
            onChange={(event) => {
              const next = new Set(current);
              if (event.target.checked) next.add(column.name);
              else next.delete(column.name);
              chooseColumns(next);
            }}
          />
        ))}
        <Button className="mt-2 justify-center" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}

function withoutState({ state: _, ...rest }: JobFilter): JobFilter {
  return rest;
}
