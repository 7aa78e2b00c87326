/** A plain table for lists that fit on a page; long ones are virtual, see jobs/list.tsx. */

import type { ReactNode } from "react";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** On phones it is left out. */
  isWide?: boolean;
  align?: "right";
  /** Takes what room is left, and cuts what does not fit. */
  isMain?: boolean;
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  onOpen?: (row: T) => void;
  isDim?: (row: T) => boolean;
}

export function Table<T>({ label, columns, rows, idOf, onOpen, isDim }: Props<T>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
    <section className="overflow-x-auto" aria-label={label} tabIndex={0}>
      <table className="w-full border-collapse text-left">
        <thead>
          <tr className="border-line border-b text-faint text-xs">
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                className={`h-8 whitespace-nowrap px-2 font-medium first:pl-4 last:pr-4 lg:px-4 ${classOf(column)}`}
              >
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr
              key={idOf(row)}
              onClick={onOpen && ((event) => openBy(event.target, () => onOpen(row)))}
              className={`border-line border-b last:border-0 hover:bg-hover ${onOpen ? "cursor-pointer" : ""} ${isDim?.(row) ? "text-muted" : ""}`}
            >
              {columns.map((column) => (
                <td
                  key={column.title}
                  className={`h-9 px-2 py-1.5 first:pl-4 last:pr-4 lg:px-4 ${column.isMain ? "w-full max-w-0" : "whitespace-nowrap"} ${classOf(column)}`}
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

function classOf<T>(column: Column<T>): string {
  return `${column.isWide ? "hidden md:table-cell" : ""} ${column.align === "right" ? "num text-right" : ""} ${column.title === "Actions" ? "text-right" : ""}`;
}

/** A click on a row opens it, but not one on a button or a link in it. */
export function openBy(target: EventTarget, open: () => void): void {
  if (target instanceof Element && target.closest("a, button, input, label, select")) return;
  if (String(getSelection()) !== "") return;
  open();
}
