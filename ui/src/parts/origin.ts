/** The scheme, host and port of a URL; the text itself while it is not a URL. */
export function originOf(url: string): string {
  try {
    return new URL(url.trim()).origin;
  } catch {
    return url;
  }
}
