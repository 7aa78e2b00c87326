/**
 * Errors that a handler throws to choose the outcome of its attempt, and the retry policy.
 * verdict.ts translates them.
 */

import { Invalid } from "../errors.ts";
import { type Duration, seconds } from "./duration.ts";

/**
 * Throw this error to fail the attempt and retry the job. `after` is the delay; by default, the
 * configured backoff applies. The attempt counts toward `maxAttempts`.
 */
export class Retry extends Error {
  override readonly name = "Retry";
  readonly afterS: number | undefined;

  constructor(reason?: string | null, options: { readonly after?: Duration } = {}) {
    super(reason ?? "The handler requested another attempt");
    this.afterS = options.after === undefined ? undefined : seconds(options.after, "after");
  }
}

/** Throw this error to run the job again later. The attempt does not count. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  readonly delayS: number | undefined;
  readonly runAt: string | undefined;

  constructor(until: Duration | Date) {
    super(`Snoozed until ${until instanceof Date ? until.toISOString() : until}`);
    if (until instanceof Date) this.runAt = until.toISOString();
    else this.delayS = seconds(until, "until");
  }
}

/** Throw this error in a handler to finish the job as canceled. */
export class Cancel extends Error {
  override readonly name = "Cancel";

  constructor(reason?: string) {
    super(reason ?? "Canceled by the handler");
  }
}

/** Throw this error to make the job dead at once, even if attempts are left. */
export class Dead extends Error {
  override readonly name = "Dead";

  constructor(reason?: string) {
    super(reason ?? "Failed permanently by the handler");
  }
}

/**
 * The error that `ctx.check()` throws if the job was asked to stop. It is also the value
 * of `ctx.signal.reason`.
 */
export class Cancelled extends Error {
  override readonly name = "Cancelled";

  constructor(reason = "The job was asked to stop") {
    super(reason);
  }
}

/** How jobs of a definition are retried. */
export interface RetryPolicy {
  /** Maximum number of attempts (default: 5). */
  readonly maxAttempts?: number;
  /** Backoff after the first failed attempt (default: 1 second). It doubles after each attempt. */
  readonly base?: Duration;
  /** Maximum backoff (default: 1 hour). */
  readonly cap?: Duration;
  /** Classes of errors after which the job is dead at once. */
  readonly giveUpOn?: readonly (abstract new (
    ...given: never[]
  ) => Error)[];
}

export function checkAttempts(given: number): number {
  if (!Number.isInteger(given) || given < 1 || given > 1000) {
    throw new Invalid("maxAttempts must be a whole number from 1 to 1000", {
      field: "maxAttempts",
    });
  }
  return given;
}
