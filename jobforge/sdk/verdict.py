"""What the end of a run means: one pure match from an answer, an error or an exit to a Verdict.

Knows nothing of processes, tasks or the database. The engine decides what becomes of the job; here
it is only said how the attempt ended. An inline run and the inside of a job's process use
`returned` and `raised`; whoever watches the process uses `exited`.
"""

import signal
import traceback
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Literal

from jobforge.errors import (
    ChildFailed,
    EgressError,
    EventTimeout,
    Invalid,
    InvalidPayload,
    InvalidResult,
    Json,
    NoArtifactStore,
)
from jobforge.redact import redact, redact_head, redact_tail
from jobforge.sdk.retry import Cancel, Dead, Retry, Snooze, Waiting
from jobforge.sdk.settings import Settings
from jobforge.types.jobs import Outcome

# The engine keeps errors of up to 64 KiB whole.
_LONGEST_MESSAGE = 8_000
_LONGEST_TRACEBACK = 16_000
# No more of a message is searched for secrets: inline jobs fail in the event loop.
_MOST_READ = 32 * 1024

Limit = Literal["memory", "cpu", "file_size", "processes"]


# The next attempt would meet the same: what a step has come to is stored.
_FINAL = (InvalidPayload, InvalidResult, EventTimeout, ChildFailed, NoArtifactStore)


class Stop(StrEnum):
    """Why a run is told to end."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    LOST = "lost"  # the lease has ended: no outcome is reported
    EXPIRED = "expired"  # the lease ran out in an outage: the job is handed back
    SHUTDOWN = "shutdown"  # the worker ends: the job is handed back

    @property
    def is_final(self) -> bool:
        """No time is given to clean up."""
        return self in {Stop.LOST, Stop.EXPIRED, Stop.SHUTDOWN}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an attempt ended, in the words of complete_jobs."""

    outcome: Outcome
    result: Json = None
    error: dict[str, Json] | None = None
    reason: str | None = None  # of a cancel
    final: bool | None = None  # of a failure: no further attempt
    retry_in_s: float | None = None
    run_at: datetime | None = None
    wait: dict[str, Json] | None = None  # of a snooze: what for

    def to_json(self) -> dict[str, Json]:
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, document: dict[str, Json]) -> "Verdict":
        """ValueError for what no verdict holds: a job may write whatever it likes."""
        if any(not isinstance(document.get(name), kinds) for name, kinds in _KINDS.items()):
            raise ValueError("this is no verdict")
        read = {**document, "outcome": Outcome(document["outcome"])}
        if isinstance(read.get("run_at"), str):
            read["run_at"] = datetime.fromisoformat(read["run_at"])
        return cls(**read)


_NAMES = tuple(field.name for field in fields(Verdict))
_KINDS = {
    "error": dict | None,
    "reason": str | None,
    "final": bool | None,
    "retry_in_s": int | float | None,
    "run_at": str | None,
    "wait": dict | None,
}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: by exiting or by a signal, and over which of its limits."""

    code: int | None = None
    signal: int | None = None
    reason: Limit | None = None


def returned(result: Json) -> Verdict:
    return Verdict(Outcome.SUCCEEDED, result)


def unusable(error: Invalid) -> Verdict:
    """The handler returned something that cannot be kept: it would again."""
    return Verdict(Outcome.FAILED, error=_described(error, "InvalidResult"), final=True)


def raised(error: BaseException, settings: Settings, stopped: Stop | None = None) -> Verdict:
    match error:
        case Waiting():
            said = _waits(error)
        case BaseExceptionGroup() if error.split(Waiting)[1] is None:
            # A task group wraps what its tasks raise. A job waits for one thing at a time.
            said = _waits(_first(error))
        case Snooze():
            said = Verdict(Outcome.SNOOZED, retry_in_s=error.delay_s, run_at=error.run_at)
        case Cancel():
            said = Verdict(Outcome.CANCELED, reason=_head(_message(error)))
        case Dead():
            said = Verdict(Outcome.FAILED, error=_described(error), final=True)
        case Retry():
            said = Verdict(Outcome.FAILED, error=_described(error), retry_in_s=error.after_s)
        case EgressError():
            said = Verdict(
                Outcome.FAILED,
                error={**_described(error), "code": error.code, **redact(error.detail)},
                final=error.is_final or None,
                retry_in_s=error.retry_in_s,
            )
        case MemoryError():
            said = Verdict(Outcome.CRASHED, error=_over("memory"))
        case _:
            final = isinstance(error, (*_FINAL, *settings.give_up_on)) or None
            said = Verdict(Outcome.FAILED, error=_described(error), final=final)
    return _after(said, stopped)


def _waits(error: Waiting) -> Verdict:
    return Verdict(Outcome.SNOOZED, retry_in_s=error.delay_s, run_at=error.run_at, wait=error.wait)


def _first(error: BaseException) -> Waiting:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Waiting)  # noqa: S101 - the group has no others
    return error


def exited(how: Exit, stopped: Stop | None, said: Verdict | None) -> Verdict | None:
    """A process has ended; `said` is what it told before. None: there is nothing to report."""
    if stopped is Stop.LOST:
        return None
    if said is not None:
        return _after(said, stopped)
    return _after(Verdict(Outcome.CRASHED, error=_crash(how)), stopped)


def _after(said: Verdict, stopped: Stop | None) -> Verdict:
    """What a run said that had been told to end: only an answer of its own choice still counts."""
    if stopped is None or _is_chosen(said):
        return said
    match stopped:
        case Stop.TIMEOUT:
            error = {**(said.error or {}), "type": "TimedOut", "message": "the timeout has passed"}
            return replace(said, outcome=Outcome.TIMED_OUT, error=error)
        case Stop.CANCEL:
            return replace(said, outcome=Outcome.CANCELED)
        case Stop.SHUTDOWN | Stop.EXPIRED | Stop.LOST:
            return Verdict(Outcome.RELEASED)


def _is_chosen(said: Verdict) -> bool:
    if said.outcome in {Outcome.SUCCEEDED, Outcome.SNOOZED, Outcome.CANCELED}:
        return True
    return said.final is not None or said.retry_in_s is not None


def _described(error: BaseException, name: str | None = None) -> dict[str, Json]:
    message, trace = _head(_message(error)), _end(_trace(error))
    return {"type": name or _name(type(error)), "message": message, "traceback": trace}


# Redacted before it is cut to what is kept: half a secret would not be known as one.


def _head(text: str) -> str:
    head = redact_head(text[:_MOST_READ], is_cut=len(text) > _MOST_READ)
    return head[:_LONGEST_MESSAGE]


def _end(text: str) -> str:
    end = redact_tail(text[-_MOST_READ:], is_cut=len(text) > _MOST_READ)
    return end[-_LONGEST_TRACEBACK:]


def _name(kind: type[BaseException]) -> str:
    if kind.__module__ in {"builtins", "__main__", "jobforge.sdk.retry", "jobforge.errors"}:
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001 - a __str__ of the user's that fails
        return f"<its message failed with {type(fault).__name__}>"


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, _own(error.__traceback__)))
    except Exception as fault:  # noqa: BLE001 - as above
        return f"<its traceback failed with {type(fault).__name__}>"


def _own(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that lies in the user's code: our frames stand above it."""
    first = trace
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    return trace or first


def _is_ours(trace: TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__")).startswith("jobforge.")


def _crash(how: Exit) -> dict[str, Json]:
    if how.reason is not None:
        return _over(how.reason)
    if how.signal is not None:
        return {"type": "Crashed", "message": f"killed by {_signal_name(how.signal)}"}
    return {"type": "Crashed", "message": f"ended with exit code {how.code} and no outcome"}


def _over(limit: Limit) -> dict[str, Json]:
    words = limit.replace("_", " ")
    return {"type": "Crashed", "message": f"went over its {words} limit", "reason": limit}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
