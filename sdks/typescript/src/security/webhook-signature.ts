/** Verifies webhook messages in the format of Standard Webhooks 1.0; see docs/webhooks.md. */

import { createHmac, timingSafeEqual } from "node:crypto";
import { Invalid, Unauthenticated } from "../errors.ts";
import type { JsonObject } from "../types/jobs.ts";

const PREFIX = "whsec_";
const TOLERANCE_S = 300;
const MIN_KEY_BYTES = 24; // bytes; an empty or short key would make signatures forgeable

/** The message that a webhook endpoint receives. */
export interface WebhookMessage {
  readonly type: string;
  readonly timestamp: string;
  readonly data: JsonObject;
}

/**
 * Headers of a webhook request: those of `fetch`, of Node's `http`
 * module, or of a framework. Names are case-insensitive.
 */
export type WebhookHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Return the message of a webhook if its signature is valid and its timestamp is within five minutes
 * of now; throw Unauthenticated otherwise. `body` is the raw request body, before parsing.
 */
export function verifyWebhook(
  secret: string | undefined,
  headers: WebhookHeaders,
  body: string | Uint8Array,
  options: { readonly now?: Date } = {},
): WebhookMessage {
  const [id, sentAt, signatures] = ["id", "timestamp", "signature"].map((name) =>
    readHeader(headers, `webhook-${name}`),
  ) as [string, string, string];
  const now = (options.now ?? new Date()).getTime() / 1000;
  if (!/^\d{1,12}$/.test(sentAt) || Math.abs(now - Number(sentAt)) > TOLERANCE_S) {
    throw new Unauthenticated("The message is too old, or its timestamp is in the future", {
      field: "webhook-timestamp",
    });
  }
  const signed = createHmac("sha256", decodeKey(secret)).update(`${id}.${sentAt}.`).update(body);
  const expected = Buffer.from(`v1,${signed.digest("base64")}`);
  if (!signatures.split(" ").some((given) => equalsInConstantTime(Buffer.from(given), expected))) {
    throw new Unauthenticated("The message was not signed with this secret", {
      field: "webhook-signature",
    });
  }
  return JSON.parse(Buffer.from(body).toString()) as WebhookMessage;
}

function decodeKey(secret: string | undefined): Buffer {
  const text = secret ?? "";
  const key = Buffer.from(text.slice(text.startsWith(PREFIX) ? PREFIX.length : 0), "base64");
  if (key.length >= MIN_KEY_BYTES) return key;
  throw new Invalid("A webhook secret must be whsec_ followed by at least 24 bytes in base64", {
    field: "secret",
  });
}

function readHeader(headers: WebhookHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
  if (typeof value === "string" && value !== "") return value;
  throw new Unauthenticated(`The message has no ${name}`, { field: name });
}

/** Compare in constant time, so that the time does not reveal the first difference. */
function equalsInConstantTime(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}
