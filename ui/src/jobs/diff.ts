/** Compares two strings line by line. */

export interface DiffLine {
  kind: "same" | "gone" | "new";
  text: string;
}

// lines; longer strings are truncated, because the table has a cell for each pair of lines
const MOST = 400;

export function difference(before: string, after: string): DiffLine[] {
  const old = before.split("\n").slice(-MOST);
  const now = after.split("\n").slice(-MOST);
  const common = commonLengths(old, now);
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    const [gone, fresh] = [old[i], now[j]];
    if (gone !== undefined && gone === fresh) {
      lines.push({ kind: "same", text: gone });
      i += 1;
      j += 1;
    } else if (
      fresh === undefined ||
      (gone !== undefined && cellAt(common, i + 1, j) >= cellAt(common, i, j + 1))
    ) {
      lines.push({ kind: "gone", text: gone ?? "" });
      i += 1;
    } else {
      lines.push({ kind: "new", text: fresh });
      j += 1;
    }
  }
  return lines;
}

/**
 * Return the length of the longest common subsequence of the lines after each pair of positions.
 */
function commonLengths(old: string[], now: string[]): number[][] {
  const table = Array.from({ length: old.length + 1 }, () => new Array(now.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const row = table[i] as number[];
      row[j] =
        old[i] === now[j]
          ? cellAt(table, i + 1, j + 1) + 1
          : Math.max(cellAt(table, i + 1, j), cellAt(table, i, j + 1));
    }
  }
  return table;
}

function cellAt(table: number[][], i: number, j: number): number {
  return table[i]?.[j] ?? 0;
}
