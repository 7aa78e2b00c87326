"""Plain attempts as OTLP has them: a span for each, and the request that they are sent in.

The SDK encodes a sample of each kind. In it, whatever differs between attempts of that kind is a
mark of the same length, and to write a span is to put bytes in the places of the marks.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

import orjson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from jobforge.job import ClaimedJob, Outcome
from jobforge.tracing.plain import Opener, Plain, draw_ids
from jobforge.tracing.traceparent import Traceparent

_MOST_KINDS = 1_000
_MOST_PATTERNS = 10_000
_MOST_LEASES = 1_000

# Marks. No text has bytes like these, and no other number so many of them.
_TRACE, _SPAN, _PARENT = b"\xf1" * 16, b"\xf2" * 8, b"\xf3" * 8
_BEGAN, _ENDED = b"\xf4" * 8, b"\xf5" * 8
_LEASE = b"\xf8" * 7 + b"\x78"
_SAMPLE = ClaimedJob(
    tenant_id=UUID(bytes=b"\xf7" * 16),
    job_id=UUID(bytes=b"\xf6" * 16),
    lease=sum((byte & 0x7F) << 7 * place for place, byte in enumerate(_LEASE)),
    definition="",
    version=1,
    queue="",
    attempt=1,
    max_attempts=1,
    timeout_s=None,
    started=b"",
    source="",
    correlation_id=None,
    traceparent=None,
    idempotency_key=None,
    tags=None,
    payload_json="",
)
_ENQUEUED = Traceparent(_TRACE.hex(), _PARENT.hex(), "01")

_Kind = tuple[str, int, str, int]  # definition, version, queue and attempt
_Key = tuple[_Kind, int, bool]  # of which tenant, and whether it was enqueued in a trace

# An attempt that has succeeded: its job, the span that enqueued it, its ids if anybody knows them,
# and when it began and ended.
Ended = tuple[ClaimedJob, Traceparent | None, bytes | None, int, int]


class _Pattern(NamedTuple):
    """A format for bytes, and what brings the values into its order."""

    text: bytes
    order: Callable[[tuple[list[bytes], ...]], tuple[list[bytes], ...]]


class Messages:
    """Of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._opener = Opener(resource)
        self._patterns: dict[_Key, _Pattern] = {}
        self._pattern_of_kind = lru_cache(_MOST_KINDS)(self._make_pattern)
        sample = self._encode(_SAMPLE[3:7], None)
        del sample.scope_spans[0].spans[:]
        self._scope = sample.scope_spans[0].SerializeToString()
        del sample.scope_spans[:]
        self._resource = sample.SerializeToString()

    def write(self, attempts: Sequence[Ended]) -> Iterator[bytes]:
        """The spans of attempts that succeeded. Column by column, which is much faster."""
        for key, alike in groupby(attempts, _key):
            jobs, parents, given, began, ended = zip(*alike, strict=True)
            ids = [known or new for known, new in zip(given, draw_ids(*parents), strict=True)]
            text, order = self._patterns.get(key) or self._add_pattern(key)
            columns = (
                [each[:16] for each in ids],
                [each[16:] for each in ids],
                [b"" if each is None else bytes.fromhex(each.span_id) for each in parents],
                [each.to_bytes(8, "little") for each in began],
                [each.to_bytes(8, "little") for each in ended],
                _all_written([job.job_id for job in jobs]),
                [_varint(job.lease) for job in jobs],
            )
            yield from map(text.__mod__, zip(*order(columns), strict=True))

    def enclose(self, spans: Sequence[bytes]) -> bytes:
        """A request with these."""
        size = len(self._scope) + sum(map(len, spans))
        scope = _head(ResourceSpans.SCOPE_SPANS_FIELD_NUMBER, size)
        size += len(self._resource) + len(scope)
        resource = _head(ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER, size)
        return b"".join((resource, self._resource, scope, self._scope, *spans))

    def _add_pattern(self, key: _Key) -> _Pattern:
        kind, tenant_id, is_linked = key
        text, order = self._pattern_of_kind(kind, _ENQUEUED if is_linked else None)
        text = text.replace(_written(_SAMPLE.tenant_id), _written(UUID(int=tenant_id)))
        if len(self._patterns) >= _MOST_PATTERNS:
            self._patterns.clear()
        self._patterns[key] = _Pattern(text, order)
        return self._patterns[key]

    def _make_pattern(self, kind: _Kind, parent: Traceparent | None) -> _Pattern:
        spans = ScopeSpans(spans=self._encode(kind, parent).scope_spans[0].spans)
        text = spans.SerializeToString()
        marks = (_TRACE, _SPAN, _PARENT, _BEGAN, _ENDED, _written(_SAMPLE.job_id), _LEASE)
        found = re.findall(b"|".join(map(re.escape, marks)), text)
        text = text.replace(b"%", b"%%")
        for mark in marks:
            text = text.replace(mark, b"%b")
        return _Pattern(text, itemgetter(*map(marks.index, found)))

    def _encode(self, kind: _Kind, parent: Traceparent | None) -> ResourceSpans:
        job = ClaimedJob._make((*_SAMPLE[:3], *kind, *_SAMPLE[7:]))
        plain = Plain(job, parent, self._opener, int.from_bytes(_BEGAN, "little"))
        plain.ids = _TRACE + _SPAN
        span = plain.open()
        span.set_attribute("jobforge.outcome", Outcome.SUCCEEDED)
        span.end(int.from_bytes(_ENDED, "little"))
        assert isinstance(span, ReadableSpan)  # noqa: S101 - all of the SDK's are
        (encoded,) = encode_spans([span]).resource_spans
        assert isinstance(encoded, ResourceSpans)  # noqa: S101 - as above
        return encoded


def _key(attempt: Ended) -> _Key:
    job, parent, *_ = attempt
    return job[3:7], job.tenant_id.int, parent is not None  # numbers are compared faster than ids


def _written(uuid: UUID) -> bytes:
    return str(uuid).encode()


def _all_written(uuids: Sequence[UUID]) -> list[bytes]:
    text = orjson.dumps(uuids)  # ["…","…"]: much faster than str
    return [text[at : at + 36] for at in range(2, len(text), 39)]


@lru_cache(_MOST_LEASES)  # jobs that were claimed together have the same
def _varint(lease: int) -> bytes:
    """In eight bytes, which a time in microseconds takes; less is filled up."""
    return bytes([*((lease >> 7 * place) & 0x7F | 0x80 for place in range(7)), lease >> 49])


def _head(field: int, size: int) -> bytes:
    """What goes before a message of that size within another."""
    head = [field << 3 | 2]
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size])
