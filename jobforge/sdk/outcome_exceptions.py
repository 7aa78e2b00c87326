"""Exceptions by which a handler chooses how its attempt ends.

verdict.py maps each of them to a Verdict.
"""

from datetime import datetime

from jobforge.errors import Invalid, Json
from jobforge.sdk.duration import Duration, to_seconds

DEFAULT_ATTEMPTS = 5
DEFAULT_BASE_S = 1.0
DEFAULT_CAP_S = 3600.0


class Retry(Exception):
    """Raised in a handler: fails the attempt and retries the job. In `@jf.job`: a retry policy.

    `raise Retry(after=30)` retries after 30 seconds; without `after`, the configured backoff
    applies. The attempt counts.

    As a policy: `@jf.job(retry=Retry(max_attempts=8, base=1, cap=3600, give_up_on=(ValueError,)))`.
    An error of a type in `give_up_on` is final.
    """

    def __init__(  # noqa: PLR0913 - one class for policy and outcome
        self,
        reason: str | None = None,
        *,
        after: Duration | None = None,
        max_attempts: int = DEFAULT_ATTEMPTS,
        base: Duration = DEFAULT_BASE_S,
        cap: Duration = DEFAULT_CAP_S,
        give_up_on: tuple[type[Exception], ...] = (),
    ) -> None:
        super().__init__(reason or "The handler requested another attempt")
        self.reason = reason
        self.after_s = None if after is None else to_seconds(after, "after")
        self.max_attempts = max_attempts
        self.base_s = to_seconds(base, "base")
        self.cap_s = to_seconds(cap, "cap")
        self.give_up_on = give_up_on


class Snooze(Exception):
    """Raised in a handler: runs the job again later. This attempt does not count.

    `Snooze(60)`, `Snooze(timedelta(hours=1))`, or `Snooze(moment)` with a datetime that has a time
    zone.
    """

    def __init__(self, until: Duration | datetime) -> None:
        super().__init__(f"Snoozed until {until}")
        self.delay_s: float | None = None
        self.run_at: datetime | None = None
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise Invalid("until must have a time zone", field="until")
            self.run_at = until
        else:
            self.delay_s = to_seconds(until, "until")


class Cancel(Exception):
    """Raised in a handler: finishes the job as canceled, because it is no longer needed."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "Canceled by the handler")
        self.reason = reason


class Dead(Exception):
    """Raised in a handler: makes the job dead immediately, even if attempts are left."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "Failed permanently by the handler")
        self.reason = reason


class Cancelled(BaseException):
    """Raised inside a handler that was asked to stop.

    A BaseException, so that `except Exception` in the handler does not catch it.
    """


class AttemptSuspended(BaseException):
    """Raised by `ctx.sleep`, `ctx.wait_for_event` and `ctx.gather` to end the attempt.

    The next attempt reaches the same call and continues. A BaseException, so that `except
    Exception` in the handler does not catch it.
    """

    def __init__(
        self, wait: dict[str, Json], *, delay_s: float | None = None, run_at: datetime | None = None
    ) -> None:
        super().__init__(f"Waiting: {wait['kind']} {wait['name']}")
        self.wait = wait
        self.delay_s = delay_s
        self.run_at = run_at
