/** Return the scheme, host and port of a URL, or the text itself if it is not a valid URL. */
export function originOf(url: string): string {
  try {
    return new URL(url.trim()).origin;
  } catch {
    return url;
  }
}
