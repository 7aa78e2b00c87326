/**
 * Which names stand for a secret: `password`, `X-Api-Key`, `accessToken`, `AWS_SECRET_ACCESS_KEY`.
 *
 * A name is read as words, whatever joins them. What only speaks about a secret, such as
 * `token_type` or `max_tokens`, is not one.
 */

// A name longer than this is judged by its end.
const LONGEST = 128;
const REMEMBERED = 4096;

/** Whether what such a name holds must not be shown. */
export function isSecretName(name: string): boolean {
  const judgedName = name.slice(-LONGEST);
  const known = judged.get(judgedName);
  if (known !== undefined) return known;
  if (judged.size >= REMEMBERED) judged.clear();
  const words = (judgedName.match(WORDS) ?? []).map((word) => word.toLowerCase());
  const verdict = words.some((_, position) => isSecretAt(words, position));
  judged.set(judgedName, verdict);
  return verdict;
}

/** Whether the secret reaches to the end of the line, spaces included, as in HTTP headers. */
export function isHeaderName(name: string): boolean {
  const plain = name.toLowerCase().replaceAll("_", "-");
  return plain.endsWith("authorization") || plain.endsWith("cookie");
}

const judged = new Map<string, boolean>();
const WORDS = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g;

function words(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

const SECRET = words(`
  authorization cookie cookies credential credentials creds cvc cvv jwt otp passcode passphrase
  passwd password passwords pwd secret secrets token tokens totp
`);
// Secret at the end of a name only: `auth` holds credentials, `auth_method` does not.
const SECRET_AT_THE_END = words("auth bearer dsn");
// Words that were joined without a sign of it: DBPASSWORD, apikey, accesstoken.
const ENDINGS = [
  ...words(`
    password passwd passphrase secret token cookie credential credentials authorization
    apikey accesskey privatekey secretkey sessionid
  `),
];
const OPENERS = words(`
  access account api auth encryption master private secret service session shared signing ssh
  storage
`);
const PAIRS = new Set([
  ...[...OPENERS].flatMap((opener) => [`${opener} key`, `${opener} keys`]),
  "connection string",
  "secret id",
  "session id",
]);
// At the end of a name they say that it holds something about the secret, not the secret.
const ABOUT = words(`
  age at bucket budget count counts dir enabled endpoint expires expiration expired expiry field
  file id ids index kind len length limit limits method mode name names path policy provider
  rate ref required scheme size status ttl type types uri url usage used valid version
`);
// Before "tokens" they make it a number of them, as language models count.
const COUNTING = words(`
  cached completion context input max min n num output prompt reasoning remaining total used
`);

function isSecretAt(name: readonly string[], position: number): boolean {
  const word = name[position] ?? "";
  const rest = name.slice(position + 1);
  if (rest.length > 0 && PAIRS.has(`${word} ${rest[0]}`)) return !isAbout(rest.slice(1));
  if (SECRET_AT_THE_END.has(word)) return rest.length === 0;
  if (word === "tokens" && position > 0 && COUNTING.has(name[position - 1] ?? "")) return false;
  if (SECRET.has(word) || ENDINGS.some((ending) => word.endsWith(ending))) return !isAbout(rest);
  return false;
}

function isAbout(rest: readonly string[]): boolean {
  return rest.length > 0 && ABOUT.has(rest[rest.length - 1] ?? "");
}
