/** The virtual job list: only visible rows are rendered, so fifty thousand rows scroll smoothly. */

import { Link, useNavigate } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { ArrowUp, Ellipsis } from "lucide-react";
import {
  memo,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { JobListing } from "@/api/schema";
import { useJobActions } from "@/jobs/actions";
import { COLUMNS, chosenColumns, errorLine, type JobColumn } from "@/jobs/columns";
import type { useJobList } from "@/jobs/list";
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import { State } from "@/parts/state";
import { openBy } from "@/parts/table";
import { Ago } from "@/parts/time";
import { isTyping, useKeys } from "@/shell/keyboard";

interface Props {
  list: ReturnType<typeof useJobList>;
  selected: Set<string>;
  onSelect: (selected: Set<string>) => void;
  canSelect: boolean;
}

export function JobTable({ list, selected, onSelect, canSelect }: Props) {
  const { rows } = list;
  const isWide = useMedia("(min-width: 768px)");
  const isRoomy = useMedia("(min-width: 1500px)");
  const chosen = chosenColumns.use();
  const columns = useMemo(
    () => COLUMNS.filter((each) => (chosen ? chosen.has(each.name) : isRoomy || !each.isRoomy)),
    [chosen, isRoomy],
  );
  const box = useRef<HTMLDivElement>(null);
  const [offset, setOffset] = useState(0);
  const [at, setAt] = useState(-1);
  const navigate = useNavigate();
  useLayoutEffect(() => setOffset(box.current?.offsetTop ?? 0), []);
  const height = isWide ? 36 : 56;
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => height,
    overscan: 12,
    scrollMargin: offset,
    getItemKey: (index) => rows[index]?.id ?? index,
  });
  useEffect(() => virtual.measure(), [height]);
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  const { look, hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  useEffect(() => {
    look(window.scrollY < offset ? 0 : first, last);
    if (last >= rows.length - 30 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  });

  useKeys((event) => {
    if (isTyping(event.target) || event.metaKey || event.ctrlKey) return;
    const row = rows[at];
    if (event.key === "j" || event.key === "k") {
      const next = Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)));
      setAt(next);
      virtual.scrollToIndex(next, { align: "auto" });
    } else if (event.key === "x" && row && canSelect) onSelect(toggleSelection(selected, row.id));
    else if (event.key === "Enter" && row && event.target === document.body) {
      void navigate({ to: "/jobs/$id", params: { id: row.id } });
    } else if (event.key === "Escape") onSelect(new Set());
  });

  const style = useMemo(() => {
    const widths = [...(canSelect ? ["28px"] : []), ...columns.map((each) => each.width), "28px"];
    return isWide ? { gridTemplateColumns: widths.join(" ") } : undefined;
  }, [canSelect, columns, isWide]);
  // Rows are rendered when they change, but not on scrolling, so their callbacks must be stable.
  const latest = useRef({ selected, onSelect, refresh: list.refresh });
  latest.current = { selected, onSelect, refresh: list.refresh };
  const toggle = useCallback((id: string) => {
    latest.current.onSelect(toggleSelection(latest.current.selected, id));
  }, []);
  const changed = useCallback(() => void latest.current.refresh(), []);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: rows keep their position while the pointer is over the list
    <div
      ref={box}
      onMouseEnter={() => list.hold(true)}
      onMouseLeave={() => list.hold(false)}
      className="relative rounded-lg border border-line bg-surface"
    >
      {list.newer > 0 && (
        <div className="pointer-events-none sticky top-14 z-10 flex h-0 justify-center lg:top-10">
          <Button
            look="primary"
            icon={ArrowUp}
            className="pointer-events-auto shadow-float"
            onClick={() => {
              window.scrollTo({ top: 0 });
              list.showNewer();
            }}
          >
            {list.newer >= 100 ? "100 or more" : list.newer} new
          </Button>
        </div>
      )}
      <div role="table" aria-label="Jobs" aria-rowcount={list.hasNextPage ? -1 : rows.length}>
        <div role="rowgroup" className="sticky top-12 z-[5] rounded-t-lg bg-surface lg:top-0">
          <div
            role="row"
            tabIndex={-1}
            style={style}
            className="hidden h-8 items-center gap-x-2 border-line border-b px-3 text-faint text-xs md:grid"
          >
            {canSelect && (
              <span role="columnheader">
                <input
                  type="checkbox"
                  aria-label="Select all loaded jobs"
                  className="block size-3.5 accent-accent"
                  checked={selected.size > 0 && selected.size === rows.length}
                  onChange={(event) =>
                    onSelect(new Set(event.target.checked ? rows.map((row) => row.id) : []))
                  }
                />
              </span>
            )}
            {columns.map((column) => (
              <span key={column.name} role="columnheader" className="truncate font-medium">
                {column.title}
              </span>
            ))}
            <span role="columnheader">
              <span className="sr-only">Actions</span>
            </span>
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const job = rows[item.index];
            if (!job) return null;
            return (
              <Row
                key={item.key}
                job={job}
                index={item.index}
                top={item.start - offset}
                columns={isWide ? columns : null}
                style={style}
                isAt={item.index === at}
                isGone={list.gone.has(job.id)}
                isSelected={selected.has(job.id)}
                onSelect={canSelect ? toggle : null}
                onChanged={changed}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  job: JobListing;
  index: number;
  top: number;
  columns: JobColumn[] | null;
  style: { gridTemplateColumns: string } | undefined;
  isAt: boolean;
  isGone: boolean;
  isSelected: boolean;
  onSelect: ((id: string) => void) | null;
  onChanged: () => void;
}

const Row = memo(function Row({
  job,
  index,
  top,
  columns,
  style,
  isAt,
  isGone,
  isSelected,
  onSelect,
  onChanged,
}: RowProps) {
  const navigate = useNavigate();
  const [isAsked, setAsked] = useState(false);
  const shape = columns ? "grid h-9 gap-x-2" : "flex h-14 gap-3";
  const mark = isAt
    ? "bg-hover shadow-[inset_2px_0_0_var(--accent)]"
    : isSelected
      ? "bg-accent-soft"
      : "";
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keyboard users have j, k, Enter and the link
    <div
      role="row"
      tabIndex={-1}
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      data-job={job.id}
      onClick={(event) =>
        openBy(event.target, () => void navigate({ to: "/jobs/$id", params: { id: job.id } }))
      }
      style={{ ...style, transform: `translateY(${top}px)` }}
      className={`absolute top-0 left-0 w-full cursor-pointer items-center border-line border-b px-3 hover:bg-hover ${shape} ${mark} ${isGone ? "opacity-50" : ""}`}
    >
      {onSelect && columns && (
        <span role="cell">
          <input
            type="checkbox"
            aria-label={`Select ${job.id}`}
            className="block size-3.5 accent-accent"
            checked={isSelected}
            onChange={() => onSelect(job.id)}
          />
        </span>
      )}
      {columns ? (
        columns.map((column) => (
          <span
            key={column.name}
            role="cell"
            className="min-w-0 overflow-hidden text-ellipsis whitespace-nowrap"
          >
            {column.name === "job" ? (
              <JobLink job={job}>{column.cell(job)}</JobLink>
            ) : (
              column.cell(job)
            )}
          </span>
        ))
      ) : (
        <Compact job={job} />
      )}
      <span role="cell" className="shrink-0">
        {isAsked ? (
          <Actions job={job} onChanged={onChanged} />
        ) : (
          <Button
            look="quiet"
            icon={Ellipsis}
            label={`Actions of ${job.id}`}
            aria-haspopup="menu"
            aria-expanded={false}
            onClick={() => setAsked(true)}
          />
        )}
      </span>
    </div>
  );
});

/** Rendered on demand, because most rows are never hovered. */
function Actions({ job, onChanged }: { job: JobListing; onChanged: () => void }) {
  const actions = useJobActions(job, onChanged);
  return (
    <>
      <Menu
        label="Actions"
        isOpenAtFirst
        trigger={(props) => (
          <Button look="quiet" icon={Ellipsis} label={`Actions of ${job.id}`} {...props} />
        )}
        items={actions.items}
      />
      {actions.dialog}
    </>
  );
}

function JobLink({ job, children }: { job: JobListing; children: React.ReactNode }) {
  return (
    <Link to="/jobs/$id" params={{ id: job.id }} className="block min-w-0 hover:text-accent">
      {children}
    </Link>
  );
}

/** A row of two lines, for phones. */
function Compact({ job }: { job: JobListing }) {
  const error = job.error && job.state !== "succeeded" ? errorLine(job.error) : "";
  return (
    <span role="cell" className="flex min-w-0 flex-1 flex-col">
      <span className="flex min-w-0 items-center gap-2">
        <JobLink job={job}>
          <span className="block truncate font-medium">
            {job.definition}
            <span className="text-faint">@{job.version}</span>
          </span>
        </JobLink>
        <span className="ml-auto shrink-0 text-faint text-xs">
          <Ago at={job.finished_at ?? job.started_at ?? job.created_at} />
        </span>
      </span>
      <span className="flex min-w-0 items-center gap-2 text-xs">
        <State name={job.state} />
        <span className="truncate text-muted">
          {error || `${job.queue} · attempt ${job.attempt}/${job.max_attempts}`}
        </span>
      </span>
    </span>
  );
}

function toggleSelection(selected: Set<string>, id: string): Set<string> {
  const next = new Set(selected);
  if (!next.delete(id)) next.add(id);
  return next;
}

function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (tell) => {
      const list = matchMedia(query);
      list.addEventListener("change", tell);
      return () => list.removeEventListener("change", tell);
    },
    () => matchMedia(query).matches,
  );
}
