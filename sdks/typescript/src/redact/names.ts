/**
 * Recognizes names of secrets: `password`, `X-Api-Key`, `accessToken`, `AWS_SECRET_ACCESS_KEY`.
 *
 * A name is split into words at separators and case changes. Names of facts about a secret, such as
 * `token_type` or `max_tokens`, do not count.
 */

// Of a longer name, only the end is read.
const MAX_NAME_LENGTH = 128;
const REMEMBERED = 4096;

/** Whether the value of this name is secret. */
export function isSecretName(name: string): boolean {
  const suffix = name.slice(-MAX_NAME_LENGTH);
  const known = verdicts.get(suffix);
  if (known !== undefined) return known;
  if (verdicts.size >= REMEMBERED) verdicts.clear();
  const words = (suffix.match(WORDS) ?? []).map((word) => word.toLowerCase());
  const verdict = words.some((_, position) => isSecretAt(words, position));
  verdicts.set(suffix, verdict);
  return verdict;
}

/** Whether the secret extends to the end of the line, spaces included, as in HTTP headers. */
export function isHeaderName(name: string): boolean {
  const plain = name.toLowerCase().replaceAll("_", "-");
  return plain.endsWith("authorization") || plain.endsWith("cookie");
}

const verdicts = new Map<string, boolean>();
const WORDS = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g;

function words(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

const SECRET = words(`
  authorization cookie cookies credential credentials creds cvc cvv jwt otp passcode passphrase
  passwd password passwords pwd secret secrets token tokens totp
`);
// Words that denote a secret only at the end of a name: `auth` holds credentials, `auth_method`
// does not.
const SECRET_AT_THE_END = words("auth bearer dsn");
// Ends of words that were joined without a separator: DBPASSWORD, apikey, accesstoken.
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
// Last words of names whose value is a fact about the secret instead of the secret.
const ABOUT = words(`
  age at bucket budget count counts dir enabled endpoint expires expiration expired expiry field
  file id ids index kind len length limit limits method mode name names path policy provider
  rate ref required scheme size status ttl type types uri url usage used valid version
`);
// Words before "tokens" that make it a count of a language model's tokens.
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
