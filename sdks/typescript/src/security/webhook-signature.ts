/**
 * Messages of webhooks as their receivers get them: proving who sent one. They have the form of
 * Standard Webhooks 1.0; how they are sent, docs/webhooks.md says.
 */

import { createHmac, timingSafeEqual } from "node:crypto";
import { Invalid, Unauthenticated } from "../errors.ts";
import type { JsonObject } from "../types/jobs.ts";

const PREFIX = "whsec_";
const TOLERANCE_S = 300;
const MIN_KEY_BYTES = 24; // bytes; without one anybody could sign

/** What an endpoint is told. */
export interface WebhookMessage {
  readonly type: string;
  readonly timestamp: string;
  readonly data: JsonObject;
}

/** Of `fetch`, of Node's `http`, or of a framework: names in any case. */
export type WebhookHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The message, when it was sent by somebody who knows the secret, within five minutes of now;
 * Unauthenticated otherwise. `body` is what came, before anything has parsed it.
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
    throw new Unauthenticated("the message is too old, or comes from the future", {
      field: "webhook-timestamp",
    });
  }
  const signed = createHmac("sha256", decodeKey(secret)).update(`${id}.${sentAt}.`).update(body);
  const expected = Buffer.from(`v1,${signed.digest("base64")}`);
  if (!signatures.split(" ").some((given) => equalsInConstantTime(Buffer.from(given), expected))) {
    throw new Unauthenticated("the message was not signed with this secret", {
      field: "webhook-signature",
    });
  }
  return JSON.parse(Buffer.from(body).toString()) as WebhookMessage;
}

function decodeKey(secret: string | undefined): Buffer {
  const text = secret ?? "";
  const key = Buffer.from(text.slice(text.startsWith(PREFIX) ? PREFIX.length : 0), "base64");
  if (key.length >= MIN_KEY_BYTES) return key;
  throw new Invalid("the secret of a webhook is whsec_ and at least 24 bytes in base64", {
    field: "secret",
  });
}

function readHeader(headers: WebhookHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
  if (typeof value === "string" && value !== "") return value;
  throw new Unauthenticated(`the message has no ${name}`, { field: name });
}

/** Takes as long whatever the difference. */
function equalsInConstantTime(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}
