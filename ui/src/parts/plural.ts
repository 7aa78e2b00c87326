/** Return the count with the noun, which takes an s unless the count is 1. */
export function plural(count: number | string, noun: string): string {
  return `${count} ${noun}${String(count) === "1" ? "" : "s"}`;
}
