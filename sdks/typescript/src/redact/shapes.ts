/**
 * Hides secrets that are recognizable by their form: keys of well-known services, JWT, PEM, URLs
 * with passwords.
 *
 * Each pattern starts at a word boundary and matches to the end of the word. So no part of a text
 * is read twice, and the remaining text does not match in a second pass.
 */

// A word boundary, including the position after an escaped line break or percent-encoded character.
const EDGE = String.raw`(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))`;
const KEYS = [
  String.raw`eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)*`, // JWT and JWE
  "A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}", // AWS
  String.raw`AIza[\w-]{30,}|ya29\.[\w-]{8,}|GOCSPX-[\w-]{8,}`, // Google
  String.raw`gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}`, // GitHub
  String.raw`gl(?:pat|ptt|dt|rt)-[\w-]{16,}`, // GitLab
  "[sr]k_(?:live|test)_[A-Za-z0-9]{8,}", // Stripe
  "whsec_[A-Za-z0-9+/=]{8,}", // Standard Webhooks, Stripe
  String.raw`xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}`, // Slack
  String.raw`sk-(?=[\w-]{0,40}?[0-9])[\w-]{16,}`, // OpenAI, Anthropic
  String.raw`SG\.[\w-]{8,}\.[\w-]{8,}`, // SendGrid
  String.raw`(?:npm|hf)_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|do[opr]_v1_[a-f0-9]{16,}`,
  String.raw`jf_(?:[a-z]+_)?[A-Za-z0-9]{8}_[\w-]{16,}`, // JobForge
].join("|");
const KEY = new RegExp(`${EDGE}(?:${KEYS})[A-Za-z0-9_-]*`, "g");

const SLACK_HOOK = /(hooks\.slack\.com\/(?:services|workflows)\/)[\w/-]+/g;
// A value in an error of pydantic, truncated in the middle and printed without its name.
const INPUT = /(?<![\p{L}\p{N}_])(input_value=)(?:(?!, input_type=)[^\n])+/gu;
const SCHEME = /(?<![\p{L}\p{N}_])(bearer|basic)([ \t]{1,8})([A-Za-z0-9._~+/=-]{8,})/giu;
const WORD = /^[A-Za-z]?[a-z._-]*$/;

const PEM = "(?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----";
const PEM_BEGIN = new RegExp(`-----BEGIN ${PEM}`, "g");
const PEM_END = new RegExp(`-----END ${PEM}`, "g");
const PEM_BODY = /(?:[A-Za-z0-9+/=\s]|\\[nr])*/y;
const BODY_LETTER = /[A-Za-z0-9+/=\\\r\n \t]/;

const URL_START = /:\/\/[^/\s:@"<>]{0,256}:/g;
const URL_REST = /[^\s"<>]*/y;
const PORT = /[0-9]{1,5}(?![^/?#\s"'<>),;\]}])/y;

/** Replace text that looks like a secret, except private keys. */
export function hideShapes(given: string, marker: string): string {
  let text = given;
  if (text.includes("://")) {
    text = hidePasswordsInUrls(text, marker).replace(SLACK_HOOK, `$1${marker}`);
  }
  if (text.includes("input_value=")) text = text.replace(INPUT, `$1${marker}`);
  text = text.replace(SCHEME, (whole, scheme: string, space: string, value: string) =>
    looksRandom(value) ? `${scheme}${space}${marker}` : whole,
  );
  return text.replace(KEY, marker);
}

/** Replace private keys in PEM format. */
export function hidePrivateKeys(text: string, marker: string): string {
  if (!text.includes("-----BEGIN")) return text;
  const parts: string[] = [];
  let done = 0;
  let hasEnd = true;
  for (let begin = matchAt(PEM_BEGIN, text, done); begin; begin = matchAt(PEM_BEGIN, text, done)) {
    const bodyStart = begin.index + begin[0].length;
    const end: RegExpExecArray | null = hasEnd ? matchAt(PEM_END, text, bodyStart) : null;
    // after one failed search, no more searches: many BEGIN lines would take quadratic time
    hasEnd = end !== null;
    const rest = end ?? matchAt(PEM_BODY, text, bodyStart);
    parts.push(text.slice(done, begin.index), marker);
    done = rest ? rest.index + rest[0].length : bodyStart;
  }
  return parts.join("") + text.slice(done);
}

/** Replace the remainder of a private key whose beginning was truncated. */
export function hidePemEnd(text: string, marker: string): string {
  const end = matchAt(PEM_END, text, 0);
  if (end === null) return text;
  const begin = matchAt(PEM_BEGIN, text, 0);
  if (begin !== null && begin.index < end.index) return text;
  let start = end.index;
  while (start > 0 && BODY_LETTER.test(text[start - 1] ?? "")) start -= 1;
  return text.slice(0, start) + marker + text.slice(end.index + end[0].length);
}

function hidePasswordsInUrls(text: string, marker: string): string {
  const parts: string[] = [];
  let done = 0;
  let runEnd = 0;
  let lastAt = 0;
  let position = 0;
  for (
    let start = matchAt(URL_START, text, position);
    start;
    start = matchAt(URL_START, text, position)
  ) {
    position = start.index + start[0].length;
    if (position > runEnd) {
      const rest = matchAt(URL_REST, text, position);
      runEnd = rest ? position + rest[0].length : position;
      lastAt = text.lastIndexOf("@", runEnd - 1);
    }
    // Up to the last @, because passwords are not always percent-encoded.
    if (lastAt < position || matchAt(PORT, text, position) !== null) continue;
    parts.push(text.slice(done, position), marker);
    done = position = lastAt;
  }
  return parts.join("") + text.slice(done);
}

/**
 * Whether the value does not look like the next word of a sentence ("a bearer certificate", "Basic
 * Instructions.").
 */
function looksRandom(value: string): boolean {
  return value.length >= 24 || !WORD.test(value);
}

function matchAt(pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position;
  return pattern.exec(text);
}
