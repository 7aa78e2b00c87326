"""Structured logs: one line per event, as JSON for programs or in columns for terminals.

All lines are redacted. Before configure() is called, as in an application that only enqueues,
events go to the standard logger "jobforge", and the application controls them. After it, in
JobForge's own processes, records of standard logging are written as lines of the same format.
"""

import io
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TextIO
from uuid import UUID

import orjson

from jobforge import config
from jobforge.errors import Json
from jobforge.observability import tracing
from jobforge.redact import log_scope, redact, redact_text
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LogFormat = Literal["json", "text"]

_LEVELS: dict[LogLevel, int] = {  # ascending
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_host_logger = logging.getLogger("jobforge")
_bound_fields: ContextVar[Mapping[str, Json]] = ContextVar("jobforge_bound", default={})  # noqa: B039 - the dict is never mutated, only replaced


def configure(
    *,
    format: LogFormat | None = None,  # noqa: A002 - the setting's name
    level: LogLevel = "info",
    worker_id: UUID | None = None,
    stream: TextIO | None = None,
) -> None:
    """Write this process's log lines itself from now on, by default to stderr.

    Default format: text on a terminal, JSON elsewhere. Can be called again to change settings.
    """
    global _writer  # noqa: PLW0603 - a process has one log output
    root = logging.getLogger()
    root.removeHandler(_handler)
    # Bypass capture_output(): its stream would feed log lines back into the log.
    output = stream or _original_stream(sys.stderr)
    is_terminal = output.isatty()
    _writer = _Writer(
        is_json=format == "json" or (format is None and not is_terminal),
        is_colored=is_terminal and config.wants_color(),
        threshold=_LEVELS[level],
        worker_id=worker_id,
        stream=output,
    )
    root.setLevel(_writer.threshold)
    root.addHandler(_handler)
    logging.captureWarnings(capture=True)


def unconfigure() -> None:
    """Return to the application's logging."""
    global _writer  # noqa: PLW0603 - a process has one log output
    _writer = None
    logging.getLogger().removeHandler(_handler)
    logging.captureWarnings(capture=False)


def is_enabled(level: LogLevel) -> bool:
    """Return whether a line of this level is written; check it before computing costly fields."""
    number = _LEVELS[level]
    return number >= _writer.threshold if _writer else _host_logger.isEnabledFor(number)


def emit(event: str, level: LogLevel = "info", **fields: Json) -> None:
    """Write one event, named noun.verb; never raise."""
    if is_enabled(level):
        write([make_line(event, level, **fields)])


def make_line(event: str, level: LogLevel = "info", **fields: Json) -> "LogLine":
    """Return an event with the current time and context, to be written later."""
    return LogLine(datetime.now(UTC), level, event, {**_context_fields(), **fields})


def write(lines: Sequence["LogLine"]) -> None:
    """Write the lines together, regardless of their level; never raise."""
    if _writer:
        _writer.write(lines)
    else:
        for line in lines:
            _host_logger.log(_LEVELS[line.level], "%s", line)


def bind_fields(**fields: Json) -> AbstractContextManager[None]:
    """Add fields to every event within the block, including events of tasks that it starts."""
    return _FieldBinding(fields)


@contextmanager
def capture_output() -> Iterator[None]:
    """Write what this process prints as log lines, event "output".

    One line per write that ends in a line break. Output of child processes, and of libraries that
    bypass sys.stdout, is not captured.
    """
    originals = sys.stdout, sys.stderr
    captured = _CapturedStream("stdout", sys.stdout), _CapturedStream("stderr", sys.stderr)
    sys.stdout, sys.stderr = captured
    try:
        yield
    finally:
        for each in captured:
            each.flush()
        sys.stdout, sys.stderr = originals


def job_fields(job: ClaimedJob) -> dict[str, Json]:
    """Return the fields of every line about a job."""
    trace_id, span_id = _trace_of(job)
    return {
        "trace_id": trace_id,
        "span_id": span_id,
        "job_id": job.job_id,
        "definition": f"{job.definition}@{job.version}",
        "tenant_id": job.tenant_id,
        "attempt": job.attempt,
    }


def error_fields(error: BaseException) -> dict[str, str]:
    """Return an exception's type, message and traceback, redacted."""
    scope = log_scope()
    return {
        "type": type(error).__name__,
        "message": redact_text(_safe_message(error), scope),
        "traceback": redact_text("".join(traceback.format_exception(error)), scope),
    }


def _trace_of(job: ClaimedJob) -> tuple[str, str | None]:
    """Return the job's trace ID, by default the job ID in hex, and the span ID of the attempt."""
    parent = tracing.read_traceparent(job.traceparent)
    if parent is None:
        return job.job_id.hex, None
    is_recorded = parent.is_recorded and tracing.is_enabled()
    return parent.trace_id, parent.span_id if is_recorded else None


def _context_fields() -> Mapping[str, Json]:
    job = CURRENT_JOB.get()
    fields = _bound_fields.get() if job is None else {**job_fields(job), **_bound_fields.get()}
    span = tracing.read_traceparent(tracing.current_traceparent())
    if span is None or not span.is_recorded:
        return fields
    return {**fields, "trace_id": span.trace_id, "span_id": span.span_id}


class _FieldBinding:
    """Context manager around every request; a class, because a generator takes 3 times as long."""

    __slots__ = ("_fields", "_token")

    def __init__(self, fields: Mapping[str, Json]) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _bound_fields.set({**_bound_fields.get(), **self._fields})

    def __exit__(self, *_: object) -> None:
        _bound_fields.reset(self._token)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Output format and stream."""

    is_json: bool
    is_colored: bool
    threshold: int
    worker_id: UUID | None
    stream: TextIO

    def write(self, lines: Sequence["LogLine"]) -> None:
        text = "".join(map(self._text, lines))
        # One write for whole lines, so that lines of several threads do not mix.
        with _lock:
            try:
                self.stream.write(text)
                self.stream.flush()
            except (OSError, ValueError):
                return  # the reader is gone; continue without logs

    def _text(self, line: "LogLine") -> str:
        if self.is_json:
            return _json_line(line, self.worker_id)
        return _text_line(line, is_coloured=self.is_colored)


@dataclass(frozen=True, slots=True)
class LogLine:
    """An event that is not formatted yet."""

    at: datetime
    level: LogLevel
    event: str
    fields: Mapping[str, Json]

    def redacted_fields(self) -> dict[str, Json]:
        shown: dict[str, Json] = redact(
            {k: v for k, v in self.fields.items() if v is not None}, log_scope()
        )
        return shown

    def __str__(self) -> str:
        """Return the line for standard logging, which adds time and level itself."""
        return " ".join([self.event, *map(_format_field, self.redacted_fields().items())])


def _json_line(line: LogLine, worker_id: UUID | None) -> str:
    head: dict[str, Json] = {
        "timestamp": line.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": line.level,
        "event": line.event,
    }
    if worker_id:
        head["worker_id"] = worker_id
    record = {
        **head,
        **{_RESERVED_FIELDS.get(key, key): value for key, value in line.redacted_fields().items()},
    }
    try:
        return orjson.dumps(record).decode() + "\n"
    except TypeError:  # an integer of more than 64 bits, or a lone surrogate
        return json.dumps(record, default=str) + "\n"


# A caller's field must not replace a standard field.
_RESERVED_FIELDS = {name: f"{name}_" for name in ("timestamp", "level", "event")}
_COLORS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}
_LONGEST_PRINT = 1_000_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_OF_BLOCKS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _text_line(line: LogLine, *, is_coloured: bool) -> str:
    fields = line.redacted_fields()
    block = _traceback_in(fields)
    shown = " ".join(map(_format_field, fields.items()))
    level, event = f"{line.level:<8}", line.event
    if is_coloured:
        level = f"\x1b[{_COLORS[line.level]}m{level}\x1b[0m"
        event = f"\x1b[1m{event}\x1b[0m"
    time = f"{line.at.astimezone():%H:%M:%S}.{line.at.microsecond // 1000:03d}"
    return f"{time} {level} {event} {shown}".rstrip() + f"\n{block}"


def _traceback_in(fields: dict[str, Json]) -> str:
    """Remove the traceback from the fields and return it as separate, indented lines."""
    error = fields.get("error")
    if not isinstance(error, dict) or "traceback" not in error:
        return ""
    fields["error"] = f"{error.get('type')}: {error.get('message')}"
    text = _CONTROL_OF_BLOCKS.sub(_escape_control, str(error["traceback"]))
    return "".join(f"    {line}\n" for line in text.splitlines())


def _format_field(item: tuple[str, Json]) -> str:
    key, value = item
    return f"{key}={_format_value(value)}"


def _format_value(value: Json) -> str:
    if isinstance(value, str):
        text = _CONTROL.sub(_escape_control, value)
        return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
    if isinstance(value, dict | list):
        return _CONTROL.sub(_escape_control, json.dumps(value, default=str, ensure_ascii=False))
    return str(value)


def _escape_control(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


class _Handler(logging.Handler):
    """Writes records of standard logging in JobForge's format."""

    def emit(self, record: logging.LogRecord) -> None:
        if _writer is None:
            return
        try:
            level = _level_of(record.levelno)
            _writer.write([LogLine(datetime.now(UTC), level, "log", _fields_of_record(record))])
        except Exception:  # noqa: BLE001 - a bad format string; report it as standard logging does
            self.handleError(record)


def _fields_of_record(record: logging.LogRecord) -> dict[str, Json]:
    extra = {key: value for key, value in vars(record).items() if key not in _OF_EVERY_RECORD}
    fields = {**_context_fields(), "logger": record.name, "message": record.getMessage(), **extra}
    if record.exc_info and record.exc_info[1] is not None:
        fields["error"] = error_fields(record.exc_info[1])
    return fields


_OF_EVERY_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))


def _safe_message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - __str__ of a foreign exception may raise
        return ""


def _original_stream(stream: "TextIO | _CapturedStream") -> TextIO:
    return stream.original if isinstance(stream, _CapturedStream) else stream


class _CapturedStream(io.TextIOBase):
    """Replaces stdout or stderr, and logs what is written."""

    encoding = "utf-8"

    def __init__(self, name: str, original: TextIO) -> None:
        self.original = original
        self._name = name
        self._partial_lines: dict[int, str] = {}  # by thread, so that their output does not mix

    def write(self, text: str, /) -> int:
        line = self._partial_lines.pop(threading.get_ident(), "") + text
        if line.endswith("\n") or len(line) > _LONGEST_PRINT:
            self._emit_output(line)
        elif line:
            self._partial_lines[threading.get_ident()] = line
        return len(text)

    def flush(self) -> None:
        self._emit_output(self._partial_lines.pop(threading.get_ident(), ""))

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.original.fileno()

    @property
    def buffer(self) -> "_CapturedBytes":
        return _CapturedBytes(self)

    def _emit_output(self, text: str) -> None:
        if text.rstrip("\n"):
            emit("output", stream=self._name, message=text.removesuffix("\n"))


class _CapturedBytes:
    """Stands in for `sys.stdout.buffer`, for code that writes bytes."""

    def __init__(self, stream: _CapturedStream) -> None:
        self._prints = stream
        self.flush = stream.flush

    def write(self, data: bytes | bytearray | memoryview) -> int:
        self._prints.write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)


def _level_of(number: int) -> LogLevel:
    return next((name for name, floor in reversed(_LEVELS.items()) if number >= floor), "debug")


_lock = threading.Lock()
_handler = _Handler()
_writer: _Writer | None = None
