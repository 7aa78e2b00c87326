/**
 * What a handler throws to say how its attempt ends, other than by an error. What each of them
 * means for the job, verdict.ts decides.
 */

import { Invalid } from "../errors.ts";
import { type Duration, seconds } from "./duration.ts";

/** The attempt failed and should be made again, `after` so long; the attempt counts. */
export class Retry extends Error {
  override readonly name = "Retry";
  readonly afterS: number | undefined;

  constructor(reason?: string | null, options: { readonly after?: Duration } = {}) {
    super(reason ?? "the handler asked for another attempt");
    this.afterS = options.after === undefined ? undefined : seconds(options.after, "after");
  }
}

/** Not now: the job runs again later, and the attempt does not count. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  readonly delayS: number | undefined;
  readonly runAt: string | undefined;

  constructor(until: Duration | Date) {
    super(`snoozed until ${until instanceof Date ? until.toISOString() : until}`);
    if (until instanceof Date) this.runAt = until.toISOString();
    else this.delayS = seconds(until, "until");
  }
}

/** The job is no longer wanted, and ends as canceled. */
export class Cancel extends Error {
  override readonly name = "Cancel";

  constructor(reason?: string) {
    super(reason ?? "canceled by its handler");
  }
}

/** The job cannot succeed: it is dead at once, whatever attempts are left. */
export class Dead extends Error {
  override readonly name = "Dead";

  constructor(reason?: string) {
    super(reason ?? "given up by its handler");
  }
}

/** What `ctx.check()` throws, and the reason of `ctx.signal`: the job was asked to stop. */
export class Cancelled extends Error {
  override readonly name = "Cancelled";

  constructor(reason = "the job was asked to stop") {
    super(reason);
  }
}

/** How a definition is retried. An error of a class in `giveUpOn` is final. */
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
