/** Abbreviate large numbers. */
export function short(count: number): string {
  if (count < 10_000) return count.toLocaleString("en");
  if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}
