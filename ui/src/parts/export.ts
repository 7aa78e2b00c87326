/** A list as a file: for spreadsheets, or as the server told it. */

import { print } from "@/api/json";
import { createStore } from "@/store";

/** Rows of the list that is looked at, by what it is called; the palette offers to save them. */
export const shownList = createStore<{ name: string; rows: object[] } | null>(null);

export function saveCsv(name: string, rows: object[]): void {
  save(`${fileOf(name)}.csv`, csvOf(rows as { [name: string]: unknown }[]));
}

export function saveJson(name: string, rows: object[]): void {
  save(`${fileOf(name)}.json`, print(rows));
}

function fileOf(name: string): string {
  return name.toLowerCase().replaceAll(/\W+/g, "-");
}

function csvOf(rows: { [name: string]: unknown }[]): string {
  const names = Object.keys(rows[0] ?? {});
  const cell = (value: unknown) => {
    const text =
      value === null || value === undefined
        ? ""
        : typeof value === "object"
          ? print(value)
          : String(value);
    // A formula in a cell would be run by a spreadsheet.
    const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [
    names.join(","),
    ...rows.map((row) => names.map((name) => cell(row[name])).join(",")),
  ].join("\n");
}

function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
