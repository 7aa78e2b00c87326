"""Exports spans of plain attempts: collects them, and a thread sends them in large batches.

Uses the SDK exporter's own client, so that its OTEL_* variables apply. The SDK's default queue and
batch sizes suit about a hundred spans a second; the defaults here are larger.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

from jobforge.observability.tracing.otlp_template import AttemptEncoder, PlainAttempt

_BLOCK = 256  # attempts encoded at a time
_log = logging.getLogger("jobforge")

Post = Callable[[bytes], object]


class ExportLimits(NamedTuple):
    """Maximum number of waiting spans, batch size, and delay before a smaller batch."""

    capacity: int = 65_536
    batch: int = 4_096
    delay_ms: int = 5_000


def read_limits(variables: Mapping[str, str]) -> ExportLimits:
    defaults = ExportLimits()
    capacity = _number(variables, "OTEL_BSP_MAX_QUEUE_SIZE", defaults.capacity)
    batch = _number(variables, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", defaults.batch)
    delay_ms = _number(variables, "OTEL_BSP_SCHEDULE_DELAY", defaults.delay_ms)
    return ExportLimits(capacity, min(batch, capacity), delay_ms)


def find_post(exporter: SpanExporter) -> Post | None:
    """Return the function that sends an encoded request; None if the exporter has none.

    The SDK has no public name for it. If a release renames it, the SDK exports all spans.
    """
    post: Post | None = getattr(getattr(exporter, "_client", None), "export", None)
    return post


class FastSpanProcessor(SpanProcessor):
    """A SpanProcessor only so that the provider flushes it and shuts it down with the others."""

    def __init__(self, resource: Resource, post: Post, limits: ExportLimits) -> None:
        self._messages = AttemptEncoder(resource)
        self._post = post
        self._capacity, self._batch, delay_ms = limits
        self._block = min(_BLOCK, self._batch)
        self._delay_s = delay_ms / 1000
        self._attempts: deque[PlainAttempt] = deque()
        self._spans: deque[tuple[int, bytes]] = deque()
        self._received = self._sent = 0
        self._wake_event = threading.Event()
        self._sending = threading.Lock()
        self._writing = threading.Lock()
        self._is_shut_down = False
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, name="jobforge-traces", daemon=True)
        self._thread.start()

    def put(self, attempt: PlainAttempt) -> None:
        if self._received - self._sent >= self._capacity:
            self._warn_dropped()
            return
        self._attempts.append(attempt)
        self._received += 1
        if len(self._attempts) >= self._block:
            self._encode_block()
            if self._received - self._sent >= self._batch:
                self._wake_event.set()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the client has its own timeout
        self._send(1)
        return True

    def shutdown(self) -> None:
        self._is_shut_down = True
        self._wake_event.set()
        self._thread.join()

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, value=True))
        while not self._is_shut_down:
            is_rung = self._wake_event.wait(self._delay_s)
            self._wake_event.clear()
            self._send(self._batch if is_rung else 1)
        self._send(1)

    def _send(self, least: int) -> None:
        """Send batches while at least `least` spans are waiting."""
        with self._sending:
            while self._received - self._sent >= least:
                count, spans = self._take()
                try:
                    self._post(self._messages.wrap_request(spans))
                except Exception:  # noqa: BLE001 - a failed request must not stop the thread
                    _log.exception("%d spans could not be exported", count)
                self._sent += count

    def _take(self) -> tuple[int, list[bytes]]:
        if not self._spans:
            self._encode_block()
        taken = [self._spans.popleft()]
        count = taken[0][0]
        while self._spans and count + self._spans[0][0] <= self._batch:
            taken.append(self._spans.popleft())
            count += taken[-1][0]
        return count, [spans for _, spans in taken]

    def _encode_block(self) -> None:
        """Encode a block while it is in the CPU cache, or the incomplete last block."""
        with self._writing:
            count = min(len(self._attempts), self._block)
            ended = [self._attempts.popleft() for _ in range(count)]
            if ended:
                self._spans.append((count, self._messages.encode_attempts(ended)))

    def _warn_dropped(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%d spans are waiting for the collector; more spans are dropped", self._capacity
            )


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else default
