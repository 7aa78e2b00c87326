"""How an attempt ended: a pure match from a result, an error or a process exit to a Verdict.

Independent of processes, tasks and the database. A Verdict describes the attempt; the engine
decides the job's next state. Inline runs and job processes use `verdict_from_result` and
`verdict_from_error`; the code that watches a job's process uses `verdict_from_exit`.
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
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.outcome_exceptions import AttemptSuspended, Cancel, Dead, Retry, Snooze
from jobforge.types.jobs import Outcome

# The engine stores errors of up to 64 KiB without truncating them.
_LONGEST_MESSAGE = 8_000
_LONGEST_TRACEBACK = 16_000
# Characters searched for secrets. The search of an inline job's error blocks the event loop.
_MOST_READ = 32 * 1024

Limit = Literal["memory", "cpu", "file_size", "processes"]


# Final errors: the next attempt would fail the same way, for example on a stored step.
_FINAL = (InvalidPayload, InvalidResult, EventTimeout, ChildFailed, NoArtifactStore)


class StopReason(StrEnum):
    """Why a run was asked to stop."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    LOST = "lost"  # the lease was lost: no outcome is reported
    EXPIRED = "expired"  # the lease expired in an outage: the job is released to the queue
    SHUTDOWN = "shutdown"  # the worker stops: the job is released to the queue

    @property
    def is_final(self) -> bool:
        """Whether the run gets no time to clean up."""
        return self in {StopReason.LOST, StopReason.EXPIRED, StopReason.SHUTDOWN}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an attempt ended, in the fields of complete_jobs."""

    outcome: Outcome
    result: Json = None
    error: dict[str, Json] | None = None
    reason: str | None = None  # of a cancellation
    final: bool | None = None  # a failure without another attempt
    retry_in_s: float | None = None
    run_at: datetime | None = None
    wait: dict[str, Json] | None = None  # what a snoozed job waits for

    def to_json(self) -> dict[str, Json]:
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, document: dict[str, Json]) -> "Verdict":
        """Parse a verdict; raise ValueError for an invalid one, since a job may write any JSON."""
        if any(not isinstance(document.get(name), kinds) for name, kinds in _KINDS.items()):
            raise ValueError("This is not a valid verdict")
        values = {**document, "outcome": Outcome(document["outcome"])}
        if isinstance(values.get("run_at"), str):
            values["run_at"] = datetime.fromisoformat(values["run_at"])
        return cls(**values)


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
class ProcessExit:
    """How a process ended: its exit code or signal, and the limit that it exceeded, if any."""

    code: int | None = None
    signal: int | None = None
    reason: Limit | None = None


def verdict_from_result(result: Json) -> Verdict:
    return Verdict(Outcome.SUCCEEDED, result)


def verdict_from_invalid_result(error: Invalid) -> Verdict:
    """Fail without retry: the handler would return the same unusable result again."""
    return Verdict(Outcome.FAILED, error=_error_to_json(error, "InvalidResult"), final=True)


def verdict_from_error(
    error: BaseException, settings: DefinitionSettings, stopped: StopReason | None = None
) -> Verdict:
    match error:
        case AttemptSuspended():
            verdict = _verdict_from_suspension(error)
        case BaseExceptionGroup() if error.split(AttemptSuspended)[1] is None:
            # A task group wraps the exceptions of its tasks. A job has one wait at a time.
            verdict = _verdict_from_suspension(_find_first_suspension(error))
        case Snooze():
            verdict = Verdict(Outcome.SNOOZED, retry_in_s=error.delay_s, run_at=error.run_at)
        case Cancel():
            verdict = Verdict(Outcome.CANCELED, reason=_shorten_message(_message(error)))
        case Dead():
            verdict = Verdict(Outcome.FAILED, error=_error_to_json(error), final=True)
        case Retry():
            verdict = Verdict(Outcome.FAILED, error=_error_to_json(error), retry_in_s=error.after_s)
        case EgressError():
            verdict = Verdict(
                Outcome.FAILED,
                error={**_error_to_json(error), "code": error.code, **redact(error.detail)},
                final=error.is_final or None,
                retry_in_s=error.retry_in_s,
            )
        case MemoryError():
            verdict = Verdict(Outcome.CRASHED, error=_limit_crash_to_json("memory"))
        case _:
            final = isinstance(error, (*_FINAL, *settings.give_up_on)) or None
            verdict = Verdict(Outcome.FAILED, error=_error_to_json(error), final=final)
    return _apply_stop(verdict, stopped)


def _verdict_from_suspension(error: AttemptSuspended) -> Verdict:
    return Verdict(Outcome.SNOOZED, retry_in_s=error.delay_s, run_at=error.run_at, wait=error.wait)


def _find_first_suspension(error: BaseException) -> AttemptSuspended:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, AttemptSuspended)  # noqa: S101 - the group contains only AttemptSuspended
    return error


def verdict_from_exit(
    process_exit: ProcessExit, stopped: StopReason | None, verdict: Verdict | None
) -> Verdict | None:
    """Return the verdict of an ended process, or None when there is nothing to report.

    `verdict` is what the process reported before it ended, if anything.
    """
    if stopped is StopReason.LOST:
        return None
    if verdict is not None:
        return _apply_stop(verdict, stopped)
    return _apply_stop(Verdict(Outcome.CRASHED, error=_crash_to_json(process_exit)), stopped)


def _apply_stop(verdict: Verdict, stopped: StopReason | None) -> Verdict:
    """Return the verdict of a run that was asked to stop.

    A run that chose its outcome, such as by returning a result, keeps that outcome.
    """
    if stopped is None or _is_chosen(verdict):
        return verdict
    match stopped:
        case StopReason.TIMEOUT:
            error = {
                **(verdict.error or {}),
                "type": "TimedOut",
                "message": "The attempt exceeded its timeout",
            }
            return replace(verdict, outcome=Outcome.TIMED_OUT, error=error)
        case StopReason.CANCEL:
            return replace(verdict, outcome=Outcome.CANCELED)
        case StopReason.SHUTDOWN | StopReason.EXPIRED | StopReason.LOST:
            return Verdict(Outcome.RELEASED)


def _is_chosen(verdict: Verdict) -> bool:
    if verdict.outcome in {Outcome.SUCCEEDED, Outcome.SNOOZED, Outcome.CANCELED}:
        return True
    return verdict.final is not None or verdict.retry_in_s is not None


def _error_to_json(error: BaseException, name: str | None = None) -> dict[str, Json]:
    message, trace = _shorten_message(_message(error)), _shorten_traceback(_format_traceback(error))
    return {"type": name or _format_type_name(type(error)), "message": message, "traceback": trace}


# Redact before truncating: redaction does not recognize a truncated secret.


def _shorten_message(text: str) -> str:
    head = redact_head(text[:_MOST_READ], is_cut=len(text) > _MOST_READ)
    return head[:_LONGEST_MESSAGE]


def _shorten_traceback(text: str) -> str:
    tail = redact_tail(text[-_MOST_READ:], is_cut=len(text) > _MOST_READ)
    return tail[-_LONGEST_TRACEBACK:]


_MODULES_WITHOUT_PREFIX = {
    "builtins",
    "__main__",
    "jobforge.errors",
    "jobforge.sdk.outcome_exceptions",
}


def _format_type_name(kind: type[BaseException]) -> str:
    if kind.__module__ in _MODULES_WITHOUT_PREFIX:
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001 - the user's __str__ may raise anything
        return f"<its message failed with {type(fault).__name__}>"


def _format_traceback(error: BaseException) -> str:
    try:
        return "".join(
            traceback.format_exception(type(error), error, _skip_own_frames(error.__traceback__))
        )
    except Exception as fault:  # noqa: BLE001 - user code in it may raise anything
        return f"<its traceback failed with {type(fault).__name__}>"


def _skip_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop the leading frames of JobForge, so that the traceback starts in the user's code."""
    first = trace
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    return trace or first


def _is_ours(trace: TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__")).startswith("jobforge.")


def _crash_to_json(process_exit: ProcessExit) -> dict[str, Json]:
    if process_exit.reason is not None:
        return _limit_crash_to_json(process_exit.reason)
    if process_exit.signal is not None:
        return {"type": "Crashed", "message": f"Killed by {_signal_name(process_exit.signal)}"}
    return {
        "type": "Crashed",
        "message": f"Exited with code {process_exit.code} and without an outcome",
    }


def _limit_crash_to_json(limit: Limit) -> dict[str, Json]:
    label = limit.replace("_", " ")
    return {"type": "Crashed", "message": f"Exceeded its {label} limit", "reason": limit}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
