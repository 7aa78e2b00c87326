/**
 * Errors that a handler throws to choose the outcome of its attempt, and the retry policy.
 * verdict.ts translates them.
 */

import { Invalid } from "../errors.ts";
import { type Duration, seconds } from "./duration.ts";

/** The attempt failed and should be retried after the time `after`. The attempt counts. */
export class Retry extends Error {
  override readonly name = "Retry";
  readonly afterS: number | undefined;

  constructor(reason?: string | null, options: { readonly after?: Duration } = {}) {
    super(reason ?? "The handler requested another attempt");
    this.afterS = options.after === undefined ? undefined : seconds(options.after, "after");
  }
}

/** Run the job again later. The attempt does not count. */
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

/** The job is no longer wanted: it finishes as canceled. */
export class Cancel extends Error {
  override readonly name = "Cancel";

  constructor(reason?: string) {
    super(reason ?? "Canceled by the handler");
  }
}

/** The job cannot succeed: it is dead at once, even if attempts are left. */
export class Dead extends Error {
  override readonly name = "Dead";

  constructor(reason?: string) {
    super(reason ?? "Failed permanently by the handler");
  }
}

/**
 * The job was asked to stop. `ctx.check()` throws this error, and it is the reason of `ctx.signal`.
 */
export class Cancelled extends Error {
  override readonly name = "Cancelled";

  constructor(reason = "The job was asked to stop") {
    super(reason);
  }
}

/** How a definition is retried. Errors of the classes in `giveUpOn` are final. */
export interface RetryPolicy {
  readonly maxAttempts?: number;
  readonly base?: Duration;
  readonly cap?: Duration;
  readonly giveUpOn?: readonly (abstract new (...given: never[]) => Error)[];
}

export function checkAttempts(given: number): number {
  if (!Number.isInteger(given) || given < 1 || given > 1000) {
    throw new Invalid("maxAttempts must be a whole number from 1 to 1000", {
      field: "maxAttempts",
    });
  }
  return given;
}
