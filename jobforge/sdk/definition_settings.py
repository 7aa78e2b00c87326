"""The settings of a definition: how its jobs run, as frozen data.

Built from the decorator's arguments, read by the worker and its runners, and registered in the
database.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack, get_args

from jobforge.errors import Invalid, Json
from jobforge.sdk.duration import Duration, to_seconds
from jobforge.sdk.outcome_exceptions import DEFAULT_ATTEMPTS, DEFAULT_BASE_S, DEFAULT_CAP_S, Retry
from jobforge.sdk.triggers import DeclaredTriggerSettings, TriggerSettings, read_trigger

Isolation = Literal["process", "inline"]
Size = int | str  # bytes, or "256MB"

MIB = 1024**2
GIB = 1024**3

_UNITS = {"": 1, "B": 1, "KB": 1024, "MB": MIB, "GB": GIB, "TB": 1024**4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?(B))?\s*", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}")


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one job's process. With `cpu_s` None, only the timeout limits CPU time."""

    memory_bytes: int = 2 * GIB
    cpu_s: int | None = None
    open_files: int = 1024
    file_size_bytes: int | None = GIB


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: `jobs` per `period_s` seconds.

    `burst` is the number of jobs that can start together after a pause (default: `jobs`).
    """

    jobs: int
    period_s: float = 1.0
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class DefinitionSettings:
    """The settings of one definition; durations are in seconds."""

    key: str
    version: int = 1
    queue: str = "default"
    timeout_s: int = 3600
    max_attempts: int = DEFAULT_ATTEMPTS
    backoff_base_s: float = DEFAULT_BASE_S
    backoff_cap_s: float = DEFAULT_CAP_S
    give_up_on: tuple[type[Exception], ...] = ()
    isolation: Isolation = "process"
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    grace_s: float = 10.0
    description: str | None = None
    max_running: int | None = None
    max_running_per_key: int | None = None
    rate: Rate | None = None
    rate_per_key: Rate | None = None
    hooks: bool = False
    trigger: DeclaredTriggerSettings | None = None

    def __post_init__(self) -> None:
        _check_name(_KEY, self.key, "key")
        _check_name(_QUEUE, self.queue, "queue")
        _check_whole(self.version, "version", 1, 2**31 - 1)
        _check_whole(self.timeout_s, "timeout", 1, 604_800)
        _check_whole(self.max_attempts, "max_attempts", 1, 1000)
        if self.isolation not in get_args(Isolation):
            raise Invalid(
                f"isolation must be process or inline, not {self.isolation!r}", field="isolation"
            )

    @property
    def name(self) -> str:
        return f"{self.key}@{self.version}"

    def registration(self, schema: dict[str, Json] | None = None) -> dict[str, Json]:
        """Return the document for put_definition; `schema` is the JSON Schema of the parameters."""
        given = {
            "description": self.description,
            "parameters": schema,
            "queue": self.queue,
            "timeout_s": self.timeout_s,
            "max_attempts": self.max_attempts,
            "backoff_base_s": self.backoff_base_s,
            "backoff_cap_s": self.backoff_cap_s,
            "max_running": self.max_running,
            "max_running_per_key": self.max_running_per_key,
            **_rate("", self.rate),
            **_rate("_per_key", self.rate_per_key),
            "hooks": self.hooks or None,
        }
        return {name: value for name, value in given.items() if value is not None}


class CommonSettings(TypedDict, total=False):
    """The settings of functions and commands; docs/python.md describes each."""

    version: int
    queue: str
    retry: Retry | int | None
    timeout: Duration
    memory: Size | None
    cpu: Duration | None
    open_files: int | None
    file_size: Size | None
    grace: Duration
    description: str | None
    max_running: int | None
    max_running_per_key: int | None
    rate: Rate | None
    rate_per_key: Rate | None


class JobSettings(CommonSettings, TriggerSettings, total=False):
    """The settings of `@jf.job(…)`; docs/python.md describes each."""

    key: str
    isolation: Isolation


def read_settings(**settings: Unpack[JobSettings]) -> DefinitionSettings:
    """Parse settings: durations, sizes such as `256MB`, and retries as a number or policy."""
    refuse_unknown(settings, JobSettings, "job")
    fields: dict[str, Any] = {
        name: value for name, value in settings.items() if name in _FIELDS_AS_GIVEN
    }
    if "timeout" in settings:
        fields["timeout_s"] = to_whole_seconds(settings["timeout"], "timeout")
    if "grace" in settings:
        fields["grace_s"] = to_seconds(settings["grace"], "grace")
    retry = settings.get("retry")
    policy = Retry(max_attempts=retry) if isinstance(retry, int) else retry or Retry()
    return DefinitionSettings(
        max_attempts=policy.max_attempts,
        backoff_base_s=policy.base_s,
        backoff_cap_s=policy.cap_s,
        give_up_on=policy.give_up_on,
        limits=_read_limits(settings),
        trigger=read_trigger(settings),
        **fields,
    )


_FIELDS_AS_GIVEN = JobSettings.__annotations__.keys() & DefinitionSettings.__annotations__.keys()


def refuse_unknown(given: Mapping[str, object], kind: type, function: str) -> None:
    """Raise TypeError for a keyword that is not a member of this TypedDict, as a signature does."""
    unknown = given.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {min(unknown)!r}")


def parse_size(given: Size, field: str) -> int:
    """Return the bytes of "256MB", "1.5 GiB" or a plain number; units are multiples of 1024."""
    if isinstance(given, int) and not isinstance(given, bool):
        count = float(given)
    else:
        match = _SIZE.fullmatch(str(given))
        if match is None:
            raise Invalid(
                f'{field} must be bytes or a string such as "256MB", not {given!r}', field=field
            )
        count = float(match[1]) * _UNITS[f"{match[2].upper()}B" if match[2] else ""]
    if count < 1:
        raise Invalid(f"{field} must be at least one byte", field=field)
    return int(count)


def to_whole_seconds(given: Duration, field: str) -> int:
    """Return the duration in whole seconds, rounded up."""
    exact = to_seconds(given, field)
    return int(exact) + (exact > int(exact))


def _read_limits(settings: JobSettings) -> ProcessLimits:
    limits = ProcessLimits()
    if (memory := settings.get("memory")) is not None:
        limits = replace(limits, memory_bytes=parse_size(memory, "memory"))
    if (cpu := settings.get("cpu")) is not None:
        limits = replace(limits, cpu_s=to_whole_seconds(cpu, "cpu"))
    if (open_files := settings.get("open_files")) is not None:
        _check_whole(open_files, "open_files", 16, 2**20)
        limits = replace(limits, open_files=open_files)
    if (file_size := settings.get("file_size")) is not None:
        limits = replace(limits, file_size_bytes=parse_size(file_size, "file_size"))
    return limits


def _rate(suffix: str, rate: Rate | None) -> dict[str, Json]:
    if rate is None:
        return {}
    return {
        f"rate_limit{suffix}": rate.jobs,
        f"rate_period{suffix}_s": rate.period_s,
        f"rate_burst{suffix}": rate.burst,
    }


def _check_name(pattern: re.Pattern[str], name: object, field: str) -> None:
    if not isinstance(name, str) or pattern.fullmatch(name) is None:
        raise Invalid(f"{field} must be a name of letters, digits and _ . : -", field=field)


def _check_whole(number: object, field: str, least: int, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise Invalid(f"{field} must be a whole number from {least} to {most}", field=field)
