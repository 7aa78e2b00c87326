"""Steps that earlier attempts of a job stored, and the values that steps return.

A step is identified by its kind, its name, and its index among the steps of that kind and name. So
the order of calls in a handler matters only between steps with equal names. The process that runs
the job stores steps; the engine ends waits.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, TypeVar
from uuid import UUID

from jobforge.errors import Invalid, InvalidResult, Json
from jobforge.payloads.signature import ANYTHING, Shape, read_result
from jobforge.sdk.duration import Duration, to_seconds
from jobforge.sdk.outcome_exceptions import AttemptSuspended
from jobforge.types.jsonb import decode, encode

R = TypeVar("R")

Scalar = str | int | float | bool | None

_LONGEST_NAME = 200
_LONGEST_WAIT_S = 366 * 86_400
# At most the limits of the engine.
_LARGEST_RESULT = 1024**2
_LARGEST_MATCH = 2_000
_MOST_JOBS = 10_000


@dataclass(frozen=True, slots=True)
class StepKey:
    kind: str  # step, sleep, event, enqueue or gather
    name: str
    index: int

    def __str__(self) -> str:
        return self.name if self.index == 0 else f"{self.name} ({self.index + 1})"


class StepLog:
    """The steps of one job: stored results by key, and how many calls this attempt made."""

    def __init__(self, steps_json: str | None) -> None:
        stored = decode(steps_json) if steps_json else []
        self._results = {
            StepKey(each["kind"], each["name"], each["index"]): each["result"] for each in stored
        }
        self._counts: Counter[tuple[str, str]] = Counter()

    def __contains__(self, key: StepKey) -> bool:
        return key in self._results

    def __getitem__(self, key: StepKey) -> Json:
        return self._results[key]

    def next_key(self, kind: str, name: str) -> StepKey:
        """Return the key for the next step of this kind and name."""
        if not 1 <= len(name) <= _LONGEST_NAME or "\n" in name:
            raise Invalid(f"name must be one line of 1 to {_LONGEST_NAME} characters", field="name")
        encode(name, "name")
        key = StepKey(kind, name, self._counts[kind, name])
        self._counts[kind, name] += 1
        return key


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event that a job waited for. Async handlers can await it, which returns immediately."""

    id: UUID
    name: str
    data: Json

    def __await__(self) -> Generator[None, None, "ReceivedEvent"]:
        yield from ()
        return self


class Results(list[R]):
    """Results of other jobs, in the order of their handles. Async handlers may await it."""

    def __await__(self) -> Generator[None, None, "Results[R]"]:
        yield from ()
        return self


def suspend_for_sleep(key: StepKey, until: Duration | datetime) -> AttemptSuspended:
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise Invalid("until must have a time zone", field="moment")
        return AttemptSuspended(_wait(key), run_at=until)
    return AttemptSuspended(_wait(key), delay_s=_to_wait_seconds(until, "duration"))


def suspend_for_event(
    key: StepKey,
    match: Mapping[str, Scalar] | None,
    timeout: Duration,
    since: datetime | None = None,
) -> AttemptSuspended:
    wait = {**_wait(key), "match": nest_match(match or {})}
    if since is not None:
        if since.tzinfo is None:
            raise Invalid("since must have a time zone", field="since")
        wait["since"] = since.timestamp()
    if len(encode(wait["match"], "match")) > _LARGEST_MATCH:
        raise Invalid(f"match must have at most {_LARGEST_MATCH:,} bytes of JSON", field="match")
    return AttemptSuspended(wait, delay_s=_to_wait_seconds(timeout, "timeout"))


def suspend_for_jobs(key: StepKey, jobs: Iterable[UUID]) -> AttemptSuspended:
    ids = [str(job_id) for job_id in dict.fromkeys(jobs)]
    if len(ids) > _MOST_JOBS:
        raise Invalid(f"A gather can wait for at most {_MOST_JOBS:,} jobs", field="handles")
    return AttemptSuspended({**_wait(key), "jobs": ids}, delay_s=0)


def nest_match(match: Mapping[str, Scalar]) -> dict[str, Json]:
    """Return `{"order.id": 7}` as the nested form `{"order": {"id": 7}}`."""
    nested: dict[str, Json] = {}
    for path, value in match.items():
        if not isinstance(value, str | int | float | bool | None):
            raise Invalid(f"{path} must be a string, a number, true, false or null", field="match")
        *outer, last = path.split(".")
        inner = nested
        for name in outer:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise Invalid(f"{path} is inside another path of the match", field="match")
        if last in inner:
            raise Invalid(f"{path} is inside another path of the match", field="match")
        inner[last] = value
    return nested


def serialize_result(key: StepKey, shape: Shape, result: Any) -> Json:  # noqa: ANN401 - the function's result
    """Return the result as JSON; raise InvalidResult when it cannot be stored.

    InvalidResult is final: without a stored result, every attempt would run the step again.
    """
    if shape.hides_secrets:
        raise InvalidResult(
            f"The result of step {key} is a secret, which would be stored as asterisks",
            field="result",
        )
    try:
        document = shape.write(result)
        size = len(encode(document, "result"))
    except Invalid as error:
        raise InvalidResult(f"The result of step {key} {error.message}", field="result") from error
    if size > _LARGEST_RESULT:
        raise InvalidResult(
            f"The result of step {key} has {size:,} bytes of JSON; the limit is "
            f"{_LARGEST_RESULT:,}. Store it elsewhere, and return a reference",
            field="result",
            detail={"limit": _LARGEST_RESULT, "size": size},
        )
    return document


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function returns a coroutine, as far as inspection can tell."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - inspects __call__, not whether it exists
    )


def read_return_shape(function: Callable[..., Any]) -> Shape:
    """Return the shape of the function's return annotation; any JSON without one."""
    while isinstance(function, partial):
        function = function.func
    if getattr(function, "__annotations__", {}).get("return") is None:
        return ANYTHING
    return _read_annotated_shape(function)


@lru_cache(maxsize=1_000)
def _read_annotated_shape(function: Callable[..., Any]) -> Shape:
    try:
        return read_result(function)
    except (Invalid, NameError):  # not a JSON type, or imported under TYPE_CHECKING only
        return ANYTHING


def _wait(key: StepKey) -> dict[str, Json]:
    return {"kind": key.kind, "name": key.name, "index": key.index}


def _to_wait_seconds(duration: Duration, field: str) -> float:
    seconds = to_seconds(duration, field)
    if seconds > _LONGEST_WAIT_S:
        raise Invalid("A job can wait for at most 366 days at a time", field=field)
    return seconds
