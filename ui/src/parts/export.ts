/** Exports a list as a file: CSV for spreadsheets, or the server's JSON. */

import { print } from "@/api/json";
import { createStore } from "@/store";

/** The rows of the visible list and its name, for the export command of the palette. */
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
    // Escape cells that a spreadsheet would run as a formula.
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
