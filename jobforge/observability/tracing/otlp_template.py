"""Encodes plain attempts as OTLP from templates, and wraps them in requests.

The SDK encodes one sample span per kind. In the sample, fields that differ between attempts of that
kind are placeholders of fixed width, which are replaced in place to encode a span.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct, unpack
from typing import NamedTuple
from uuid import UUID

import orjson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from jobforge.observability.tracing.lazy_span import LazySpan, SdkSpanStarter, generate_ids
from jobforge.observability.tracing.traceparent import Traceparent
from jobforge.types.jobs import ClaimedJob, Outcome

_MOST_KINDS = 1_000
_MOST_LEASES = 1_000

# Placeholders. These bytes cannot occur in UTF-8 text or, repeated like this, in other numbers.
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
_JOB, _TENANT = str(_SAMPLE.job_id).encode(), str(_SAMPLE.tenant_id).encode()
_TIMES = (_BEGAN, _ENDED)
_MARKS = re.compile(
    b"(%b)" % b"|".join((_TRACE, _SPAN, _PARENT, *_TIMES, _JOB, _TENANT, re.escape(_LEASE)))
)

_Kind = tuple[str, int, str, int]  # definition, version, queue and attempt
_Fields = tuple[UUID, UUID, int, str, int, str, int]  # tenant, job, lease, and the kind

# A successful attempt: the first fields of its job, the span that enqueued it, the IDs of its span
# if other code has seen them, and its start and end.
PlainAttempt = tuple[_Fields, Traceparent | None, bytes | None, int, int]


class _SpanTemplate(NamedTuple):
    """A span split at its placeholders, and the struct that packs one with its values."""

    pieces: list[bytes]
    span: Struct


class AttemptEncoder:
    """Encodes the attempts of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._starter = SdkSpanStarter(resource)
        self._template = lru_cache(_MOST_KINDS)(self._make_template)
        sample = self._encode(_SAMPLE[3:7], None)
        del sample.scope_spans[0].spans[:]
        self._scope = sample.scope_spans[0].SerializeToString()
        del sample.scope_spans[:]
        self._resource = sample.SerializeToString()

    def encode_attempts(self, attempts: Iterable[PlainAttempt]) -> bytes:
        """Encode the spans of successful attempts, concatenated."""
        kinds: dict[tuple[_Kind, bool], list[PlainAttempt]] = defaultdict(list)
        for attempt in attempts:
            kinds[attempt[0][3:], attempt[1] is not None].append(attempt)
        return b"".join(self._encode_kind(*key, group) for key, group in kinds.items())

    def wrap_request(self, spans: Sequence[bytes]) -> bytes:
        """Return an export request with these encoded spans."""
        size = len(self._scope) + sum(map(len, spans))
        scope = _field_header(ResourceSpans.SCOPE_SPANS_FIELD_NUMBER, size)
        size += len(self._resource) + len(scope)
        resource = _field_header(ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER, size)
        return b"".join((resource, self._resource, scope, self._scope, *spans))

    def _encode_kind(self, kind: _Kind, is_linked: bool, attempts: list[PlainAttempt]) -> bytes:  # noqa: FBT001 - part of the cache key
        """Encode attempts of one kind: each piece of the template is constant or has a column."""
        fields, parents, existing, began, ended = zip(*attempts, strict=True)
        tenants, jobs, leases, *_ = zip(*fields, strict=True)
        ids = [one or new for one, new in zip(existing, generate_ids(*parents), strict=True)]
        columns: dict[bytes, Sequence[bytes | int]] = {
            _TRACE: [each[:16] for each in ids],
            _SPAN: [each[16:] for each in ids],
            _PARENT: [bytes.fromhex(each.span_id) for each in parents if each is not None],
            _BEGAN: began,
            _ENDED: ended,
            _JOB: _format_uuids(jobs),
            _TENANT: _format_uuids(tenants),
            _LEASE: [*map(_varint, leases)],
        }
        pieces, span = self._template(kind, _ENQUEUED if is_linked else None)
        return b"".join(map(span.pack, *(columns.get(each) or repeat(each) for each in pieces)))

    def _make_template(self, kind: _Kind, parent: Traceparent | None) -> _SpanTemplate:
        spans = ScopeSpans(spans=self._encode(kind, parent).scope_spans[0].spans)
        pieces = _MARKS.split(spans.SerializeToString())
        layout = "".join("Q" if each in _TIMES else f"{len(each)}s" for each in pieces)
        return _SpanTemplate(pieces, Struct(f"<{layout}"))

    def _encode(self, kind: _Kind, parent: Traceparent | None) -> ResourceSpans:
        job = ClaimedJob._make((*_SAMPLE[:3], *kind, *_SAMPLE[7:]))
        plain = LazySpan(job, parent, self._starter, int.from_bytes(_BEGAN, "little"))
        plain.ids = _TRACE + _SPAN
        span = plain.materialize()
        span.set_attribute("jobforge.outcome", Outcome.SUCCEEDED)
        span.end(int.from_bytes(_ENDED, "little"))
        assert isinstance(span, ReadableSpan)  # noqa: S101 - all sampled spans of the SDK are
        (encoded,) = encode_spans([span]).resource_spans
        assert isinstance(encoded, ResourceSpans)  # noqa: S101 - the encoder's return type
        return encoded


def _format_uuids(ids: Sequence[UUID]) -> tuple[bytes, ...]:
    written = orjson.dumps(ids)  # ["…","…"], ten times as fast as str
    return unpack("x" + len(ids) * "x36s2x", written)


@lru_cache(_MOST_LEASES)  # jobs that were claimed together share a lease
def _varint(lease: int) -> bytes:
    """Encode a lease, a time in microseconds, as a varint padded to eight bytes."""
    return bytes([*((lease >> 7 * place) & 0x7F | 0x80 for place in range(7)), lease >> 49])


def _field_header(field: int, size: int) -> bytes:
    """Return the header of an embedded message with this field number and size."""
    head = [field << 3 | 2]
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size])
