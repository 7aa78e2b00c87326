/**
 * A table for lists that fit on a page. For long lists, see the virtual table in jobs/table.tsx.
 */

import { Link, useSearch } from "@tanstack/react-router";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type ReactNode, useEffect } from "react";
import { shownList } from "@/parts/export";
import { usePlace } from "@/shell/keyboard";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** The sort key of a column. The URL stores the column that the table is sorted by. */
  by?: (row: T) => number | string | null;
  /** Hidden on phones. */
  isWide?: boolean;
  align?: "right";
  /** Takes the remaining width and truncates long content. */
  isMain?: boolean;
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  /** Called on a click, and on Enter after j or k. */
  onOpen?: (row: T) => void;
  isDim?: (row: T) => boolean;
}

export function Table<T>({ label, columns, rows, idOf, onOpen, isDim }: Props<T>) {
  const { sort } = useSearch({ strict: false }) as { sort?: string };
  const shown = sortRows(rows, columns, sort);
  const [at, box] = usePlace<HTMLTableSectionElement>(onOpen ? shown.length : 0, (place) => {
    const row = shown[place];
    if (row !== undefined) onOpen?.(row);
  });
  useEffect(() => {
    shownList.set({ name: label, rows: rows as object[] });
    return () => shownList.set(null);
  }, [label, rows]);
  const last = columns.findLast((column) => !column.isWide);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
    <section className="overflow-x-auto" aria-label={label} tabIndex={0}>
      <table className="w-full border-collapse text-left">
        <thead>
          <tr className="border-line border-b text-faint text-xs">
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                aria-sort={directionOf(column, sort)}
                className={`h-8 whitespace-nowrap px-2 font-medium first:pl-4 last:pr-4 lg:px-4 ${classOf(column, column === last)}`}
              >
                {column.by ? <Sorter column={column} sort={sort} /> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={box}>
          {shown.map((row, index) => (
            <tr
              key={idOf(row)}
              onClick={onOpen && ((event) => openBy(event.target, () => onOpen(row)))}
              className={`border-line border-b last:border-0 hover:bg-hover ${onOpen ? "cursor-pointer" : ""} ${isDim?.(row) ? "text-muted" : ""} ${index === at ? "bg-hover shadow-[inset_2px_0_0_var(--accent)]" : ""}`}
            >
              {columns.map((column) => (
                <td
                  key={column.title}
                  className={`h-9 px-2 py-1.5 first:pl-4 last:pr-4 lg:px-4 ${column.isMain ? "w-full max-w-0" : "whitespace-nowrap"} ${classOf(column, column === last)}`}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A count; zero is dimmed. */
export function Count({ of: count, text }: { of: number; text?: string }) {
  return <span className={count === 0 ? "text-faint" : ""}>{text ?? count}</span>;
}

/** Cycles a column through ascending, descending and unsorted. */
function Sorter<T>({ column, sort }: { column: Column<T>; sort: string | undefined }) {
  const direction = directionOf(column, sort);
  const name = nameOf(column);
  const [first, second] = column.align === "right" ? [`-${name}`, name] : [name, `-${name}`];
  const next = sort === first ? second : sort === second ? undefined : first;
  const Icon = direction === "ascending" ? ArrowUp : ArrowDown;
  return (
    <Link
      to="."
      search={(old: Record<string, string | undefined>) => ({ ...old, sort: next })}
      replace
      resetScroll={false}
      className={`inline-flex items-center gap-1 hover:text-text ${direction ? "text-text" : ""}`}
    >
      {column.title}
      {direction && <Icon size={11} aria-hidden />}
    </Link>
  );
}

function nameOf<T>(column: Column<T>): string {
  return column.title.toLowerCase().replaceAll(" ", "-");
}

function directionOf<T>(column: Column<T>, sort: string | undefined) {
  if (!column.by || sort === undefined) return undefined;
  if (sort === nameOf(column)) return "ascending";
  return sort === `-${nameOf(column)}` ? "descending" : undefined;
}

/** Rows without a value come last in both directions. */
function sortRows<T>(rows: T[], columns: Column<T>[], sort: string | undefined): T[] {
  const column = columns.find((each) => directionOf(each, sort));
  const by = column?.by;
  if (!column || !by) return rows;
  const sign = directionOf(column, sort) === "ascending" ? 1 : -1;
  return [...rows].sort((one, other) => {
    const [a, b] = [by(one), by(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return a === b ? 0 : sign * (a < b ? -1 : 1);
  });
}

function classOf<T>(column: Column<T>, isLast: boolean): string {
  return `${column.isWide ? "hidden md:table-cell" : ""} ${isLast ? "max-md:pr-4" : ""} ${column.align === "right" ? "num text-right" : ""} ${column.title === "Actions" ? "text-right" : ""}`;
}

/** Open a row on a click, unless the click was on a button or link in it. */
export function openBy(target: EventTarget, open: () => void): void {
  if (target instanceof Element && target.closest("a, button, input, label, select")) return;
  if (String(getSelection()) !== "") return;
  open();
}
