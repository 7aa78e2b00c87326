"""The configuration of tracing, and spans that are sent between processes."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar
from uuid import UUID, uuid4

import orjson
import pytest
from cluster import wait_until
from opentelemetry import trace
from opentelemetry.baggage import get_baggage, set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
)

from jobforge.errors import LeaseLost
from jobforge.observability import tracing
from jobforge.observability.tracing import setup
from jobforge.observability.tracing.attempt_spans import AttemptSpans
from jobforge.observability.tracing.child_spans import ChildSpanReceiver
from jobforge.observability.tracing.child_tracer import ChildTracerProvider
from jobforge.observability.tracing.fast_exporter import (
    ExportLimits,
    FastSpanProcessor,
    find_post,
    read_limits,
)
from jobforge.observability.tracing.lazy_span import LazySpan, SdkSpanStarter
from jobforge.observability.tracing.otlp_template import AttemptEncoder
from jobforge.observability.tracing.parent import remote_context
from jobforge.observability.tracing.sampling import Sampling, read_sampling_ratio
from jobforge.observability.tracing.setup import find_exporter_name, has_span_limits
from jobforge.sdk.verdict import Verdict
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, JobRequest, Outcome
from jobforge.worker.isolation.frames import MAX_FRAME_BYTES, FrameKind, encode_frame

T = TypeVar("T")

OTHER = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RECORDED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
JOB = ClaimedJob(
    tenant_id=UUID(int=1),
    job_id=UUID(int=2),
    lease=1,
    definition="mail",
    version=1,
    queue="default",
    attempt=1,
    max_attempts=5,
    timeout_s=None,
    started=bytes(8),
    source="api",
    correlation_id=None,
    traceparent=None,
    idempotency_key=None,
    tags=None,
    payload_json="{}",
)
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
WITHOUT_IT = """
import sys
import jobforge.cli.processes.worker_process, jobforge.api, jobforge.worker.isolation.zygote
from jobforge.observability import tracing
assert not tracing.is_enabled()
assert tracing.create_attempt_spans() is None
assert "opentelemetry" not in sys.modules
"""
IN_A_ZYGOTE = """
import sys
from jobforge.observability import tracing
tracing.prepare_child_tracing()
assert tracing.is_enabled()
assert tracing.current_traceparent() is None
assert "opentelemetry.sdk" not in sys.modules
"""


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    made = TracerProvider()
    tracing.use_provider(made)
    yield made
    tracing.use_provider(None)


@pytest.mark.parametrize(
    ("variables", "exporter"),
    [
        ({}, None),
        (ENDPOINT, "otlp_proto_http"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/x"}, "otlp_proto_http"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp_proto_grpc"),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp_proto_http"),
    ],
)
def test_the_environment_names_the_exporter(
    variables: dict[str, str], exporter: str | None
) -> None:
    assert find_exporter_name(variables) == exporter


@pytest.mark.parametrize(
    ("sampler", "argument", "share"),
    [
        ("", "", 1.0),
        ("parentbased_always_on", "0.5", 1.0),
        ("parentbased_always_off", "", 0.0),
        ("ParentBased_TraceIdRatio", "0.25", 0.25),
        ("parentbased_traceidratio", "a lot", None),
        ("always_on", "", None),
        ("traceidratio", "0.5", None),
    ],
)
def test_a_worker_supports_the_usual_samplers(
    sampler: str, argument: str, share: float | None
) -> None:
    variables = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert read_sampling_ratio(variables) == share


@pytest.mark.parametrize(
    ("share", "traceparent", "is_recorded"),
    [
        (0.0, None, False),
        (1.0, None, True),
        (0.0, RECORDED, True),
        (1.0, f"{RECORDED[:-2]}00", False),
    ],
)
def test_the_enqueuers_sampling_decision_applies_and_else_the_ratio(
    share: float, traceparent: str | None, *, is_recorded: bool
) -> None:
    attempts = AttemptSpans(Sampling(share, SdkSpanStarter(Resource.get_empty())))
    begun = attempts.begin(JOB._replace(traceparent=traceparent))
    within = tracing.read_traceparent(tracing.current_traceparent())
    assert trace.get_current_span().is_recording() is is_recorded
    attempts.leave()
    assert within is not None
    assert bool(int(within.flags, 16) & 1) is is_recorded
    assert begun.traceparent == (str(within) if is_recorded else traceparent)
    assert is_recorded or within.trace_id in (traceparent or JOB.job_id.hex)
    assert tracing.current_traceparent() is None


@pytest.mark.parametrize("traceparent", [None, RECORDED, f"{RECORDED[:-2]}03"])
def test_a_plain_attempt_is_exported_as_the_sdk_would_export_it(traceparent: str | None) -> None:
    resource = Resource({"service.name": "100 % ours"})
    jobs = [
        JOB._replace(definition="é%b", queue="%s", lease=1_763_272_819_123_456),
        JOB._replace(definition="mail", tenant_id=uuid4(), job_id=uuid4(), attempt=300),
    ]
    parent = tracing.read_traceparent(traceparent)
    plain = [LazySpan(job, parent, SdkSpanStarter(resource), 1) for job in jobs for _ in range(2)]
    messages = AttemptEncoder(resource)
    spans = messages.encode_attempts(
        [(each.job[:7], parent, each.ids, each.started_ns, 2) for each in plain]
    )
    sent = messages.wrap_request([spans])
    for each in plain:
        each.set_attribute("jobforge.outcome", "succeeded")
        each.end(2)
    opened = [span for each in plain if isinstance(span := each.materialize(), ReadableSpan)]
    assert ExportTraceServiceRequest.FromString(sent) == encode_spans(opened)


def test_data_added_to_an_attempt_is_in_the_span_that_existed_from_the_beginning() -> None:
    exporter = InMemorySpanExporter()
    opener = SdkSpanStarter(Resource.get_empty(), SimpleSpanProcessor(exporter))
    posts: list[bytes] = []
    outlet = FastSpanProcessor(Resource.get_empty(), posts.append, ExportLimits())
    attempts = AttemptSpans(Sampling(1.0, opener, outlet))
    job = attempts.begin(JOB)
    span = trace.get_current_span()
    attempts.leave()
    span.set_attribute("order", 5)
    span.add_event("paid")
    attempts.end(job, Verdict(Outcome.SUCCEEDED))
    outlet.shutdown()
    (received,) = exporter.get_finished_spans()
    assert tracing.traceparent_of(span) == job.traceparent
    assert received.context == span.get_span_context()
    assert received.attributes is not None
    assert (received.attributes["order"], received.attributes["jobforge.outcome"]) == (
        5,
        "succeeded",
    )
    assert [event.name for event in received.events] == ["paid"]
    assert posts == []


def test_data_added_to_an_attempt_after_its_end_is_discarded() -> None:
    exporter = InMemorySpanExporter()
    plain = LazySpan(
        JOB, None, SdkSpanStarter(Resource.get_empty(), SimpleSpanProcessor(exporter)), 1
    )
    assert plain.is_recording()
    assert plain.close_if_untouched()
    plain.set_attribute("order", 5)
    plain.end()
    assert not plain.is_recording()
    assert exporter.get_finished_spans() == ()


def test_a_light_attempt_is_exported_with_the_ids_that_were_read_while_it_ran() -> None:
    posts: list[bytes] = []
    outlet = FastSpanProcessor(Resource.get_empty(), posts.append, ExportLimits())
    attempts = AttemptSpans(Sampling(1.0, SdkSpanStarter(Resource.get_empty()), outlet))
    asked: list[str | None] = []
    for is_asked in (True, False, True):
        job = JOB._replace(job_id=uuid4())
        assert attempts.begin(job, is_light=True) is job
        asked.append(_within(job, tracing.current_traceparent) if is_asked else None)
        assert attempts.end(job, Verdict(Outcome.SUCCEEDED)) is job
    attempts.leave()
    outlet.shutdown()
    sent = [f"00-{each.trace_id.hex()}-{each.span_id.hex()}-03" for each in _sent(posts)]
    assert [asked[0], asked[2]] == [sent[0], sent[2]]
    assert len(set(sent)) == 3


@pytest.mark.parametrize("outcome", [Outcome.FAILED, None])
@pytest.mark.parametrize("is_asked", [True, False])
def test_the_span_of_a_failed_light_attempt_is_known_after_its_end(
    outcome: Outcome | None, *, is_asked: bool
) -> None:
    exporter = InMemorySpanExporter()
    opener = SdkSpanStarter(Resource.get_empty(), SimpleSpanProcessor(exporter))
    attempts = AttemptSpans(Sampling(1.0, opener))
    job = attempts.begin(JOB, is_light=True)
    asked = _within(job, tracing.current_traceparent) if is_asked else None
    ended = attempts.end(job, None if outcome is None else Verdict(outcome))
    attempts.leave()
    (received,) = exporter.get_finished_spans()
    assert ended.traceparent == tracing.traceparent_of(trace.NonRecordingSpan(received.context))
    assert asked in {ended.traceparent, None}
    assert ended == JOB._replace(traceparent=ended.traceparent)


def test_a_waiting_light_attempt_keeps_its_span_while_others_run() -> None:
    attempts = AttemptSpans(Sampling(1.0, SdkSpanStarter(Resource.get_empty())))
    variables = []
    for lease in (1, 2):
        job = attempts.begin(JOB._replace(lease=lease), is_light=True)
        attempts.keep(job)
        variables.append((job, copy_context()))
    attempts.leave()
    seen = [each.run(_within, job, trace.get_current_span) for job, each in variables]
    assert len({span.get_span_context().span_id for span in seen}) == 2
    job, first = variables[0]
    assert attempts.end_kept(job, None).traceparent == tracing.traceparent_of(seen[0])
    assert not seen[0].is_recording()
    # Code that outlives its attempt is in no attempt.
    assert first.run(_within, job, tracing.current_traceparent) != tracing.traceparent_of(seen[0])


def test_spans_started_in_a_light_attempt_are_children_of_its_span() -> None:
    attempts = AttemptSpans(Sampling(1.0, SdkSpanStarter(Resource.get_empty())))
    tracer = TracerProvider().get_tracer("test")
    job = attempts.begin(JOB, is_light=True)

    def run() -> tuple[int, object, object]:
        around = trace.get_current_span().get_span_context().span_id
        baggage = set_baggage("color", "green")
        with tracer.start_as_current_span("inner") as inner:
            assert trace.get_current_span() is inner
            assert isinstance(inner, ReadableSpan)
            return around, inner.parent and inner.parent.span_id, get_baggage("color", baggage)

    around, parent, color = _within(job, run)
    attempts.leave()
    assert (around, color) == (parent, "green")
    assert tracing.current_traceparent() is None


def test_attempts_are_exported_in_batches_and_the_rest_at_the_end() -> None:
    posts: list[bytes] = []
    outlet = FastSpanProcessor(Resource.get_empty(), posts.append, ExportLimits(10, 3, 600_000))
    for _ in range(3):
        _put(outlet)
    wait_until(lambda: bool(posts))
    _put(outlet)
    outlet.force_flush()
    _put(outlet)
    outlet.shutdown()
    assert list(map(_count, posts)) == [3, 1, 1]


def test_a_failed_request_loses_its_own_spans_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter([OSError("it hung up")])
    posts: list[bytes] = []

    def post(request: bytes) -> None:
        for error in answers:
            raise error
        posts.append(request)

    outlet = FastSpanProcessor(Resource.get_empty(), post, ExportLimits(10, 1, 600_000))
    _put(outlet)
    wait_until(lambda: "1 spans could not be exported" in caplog.text)
    _put(outlet)
    outlet.shutdown()
    assert list(map(_count, posts)) == [1]


def test_attempts_beyond_the_capacity_are_dropped_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    posts: list[bytes] = []
    outlet = FastSpanProcessor(Resource.get_empty(), posts.append, ExportLimits(2, 10, 600_000))
    _put(outlet, 3)
    for _ in range(3):
        _put(outlet)
    outlet.shutdown()
    assert list(map(_count, posts)) == [2]
    assert caplog.text.count("2 spans are waiting") == 1


@pytest.mark.parametrize(
    ("variables", "limits"),
    [
        ({}, ExportLimits(capacity=65_536, batch=4_096, delay_ms=5_000)),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "100"}, ExportLimits(capacity=100, batch=100)),
        ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "64"}, ExportLimits(batch=64)),
        ({"OTEL_BSP_SCHEDULE_DELAY": "soon"}, ExportLimits()),
        ({"OTEL_BSP_SCHEDULE_DELAY": "100"}, ExportLimits(delay_ms=100)),
    ],
)
def test_the_limits_of_the_sdk_apply_where_they_are_set(
    variables: dict[str, str], limits: ExportLimits
) -> None:
    assert read_limits(variables) == limits


def test_spans_with_limits_are_left_to_the_sdk() -> None:
    assert not has_span_limits({**ENDPOINT, "RATE_LIMIT": "1", "OTEL_BSP_SCHEDULE_DELAY": "1"})
    assert has_span_limits({**ENDPOINT, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "10"})


def test_the_installed_exporter_sends_encoded_spans() -> None:
    assert find_post(OTLPSpanExporter()) is not None
    assert find_post(InMemorySpanExporter()) is None


def test_a_missing_exporter_costs_only_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nowhere")
    setup.configure("jobforge-test")
    assert not tracing.is_enabled()
    assert "Trace exporter 'nowhere' is not installed" in caplog.text


def test_without_tracing_none_of_its_modules_is_imported() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_IT], check=True)


def test_a_job_that_names_its_trace_keeps_it(provider: TracerProvider) -> None:
    jobs = [JobRequest("mail", traceparent="00-1"), JobRequest("mail", {"to": "ada"}, queue="q")]
    with provider.get_tracer("test").start_as_current_span("outer"):
        named, other = tracing.attach_traceparent(jobs)
        assert named is jobs[0]
        assert other == jobs[1]._replace(traceparent=tracing.current_traceparent())


@pytest.mark.parametrize("traceparent", [RECORDED, f"{RECORDED[:-2]}03"])
def test_a_span_of_a_job_arrives_as_the_sdk_would_have_made_it(traceparent: str) -> None:
    here, sdk = InMemorySpanExporter(), TracerProvider()
    sdk.add_span_processor(SimpleSpanProcessor(here))
    there, receiver = _receiving()
    provider = ChildTracerProvider()
    provider.send = partial(receiver.receive, traceparent)
    for each in (sdk, provider):
        token = attach(remote_context(traceparent))
        _work(each.get_tracer("the application", "1.0"))
        detach(token)
    received = list(map(_comparable, there.get_finished_spans()))
    assert len(received) == 5
    assert received == list(map(_comparable, here.get_finished_spans()))


def test_spans_of_a_job_are_nested_and_have_times() -> None:
    there, receiver = _receiving()
    provider = ChildTracerProvider()
    provider.send = partial(receiver.receive, RECORDED)
    tracer = provider.get_tracer("the application")
    token = attach(remote_context(RECORDED))
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner"):
        pass
    detach(token)
    inner, enclosing = there.get_finished_spans()
    assert inner.parent == enclosing.context == outer.get_span_context()
    assert enclosing.parent is not None
    assert f"{enclosing.parent.span_id:016x}" in RECORDED
    times = (enclosing.start_time, inner.start_time, inner.end_time, enclosing.end_time)
    assert list(times) == sorted(time or 0 for time in times)
    assert 0 not in times


@pytest.mark.parametrize("traceparent", [None, f"{RECORDED[:-2]}00"])
def test_spans_outside_a_recorded_attempt_are_not_sent(traceparent: str | None) -> None:
    sent: list[bytes] = []
    provider = ChildTracerProvider()
    provider.send = sent.append
    token = attach(remote_context(traceparent))
    with provider.get_tracer("test").start_as_current_span("charge"):
        within = tracing.current_traceparent()
    detach(token)
    assert (within, sent) == (traceparent, [])


def test_an_attempt_sends_at_most_a_thousand_spans() -> None:
    sent: list[bytes] = []
    provider = ChildTracerProvider()
    provider.send = sent.append
    tracer = provider.get_tracer("test")
    for _ in range(1_001):
        tracer.start_span("charge", remote_context(RECORDED)).end()
    assert len(sent) == 1_000


def test_data_added_to_a_span_after_its_end_is_discarded() -> None:
    sent: list[bytes] = []
    provider = ChildTracerProvider()
    provider.send = sent.append
    span = provider.get_tracer("test").start_span("charge", remote_context(RECORDED))
    span.end()
    span.set_attribute("order", 5)
    span.end()
    assert not span.is_recording()
    assert [orjson.loads(body)["attributes"] for body in sent] == [{}]


def test_span_data_that_cannot_be_sent_does_not_fail_the_job() -> None:
    there, receiver = _receiving()
    provider = ChildTracerProvider()
    provider.send = partial(receiver.receive, RECORDED)
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("read", remote_context(RECORDED)) as span:
        span.set_attributes({"name": "caf\udce9", "size": 2**70})
        span.update_name(7)  # type: ignore[arg-type]
    (received,) = there.get_finished_spans()
    assert received.name == "7"
    assert dict(received.attributes or {}) == {"name": "caf?", "size": "<int>"}


def test_a_span_that_is_too_large_is_omitted() -> None:
    provider = ChildTracerProvider()
    provider.send = partial(encode_frame, FrameKind.SPAN)  # type: ignore[assignment]
    span = provider.get_tracer("test").start_span("read", remote_context(RECORDED))
    span.set_attribute("text", "x" * MAX_FRAME_BYTES)
    span.end()
    assert not span.is_recording()


@pytest.mark.parametrize(
    "forged", [{"start": -1}, {"end": 2.0**64}, {"events": [["seen", {}, -1]]}]
)
def test_times_that_would_make_an_exporter_fail_are_refused(forged: dict[str, object]) -> None:
    sent: list[bytes] = []
    provider = ChildTracerProvider()
    provider.send = sent.append
    provider.get_tracer("test").start_span("read", remote_context(RECORDED)).end()
    _, receiver = _receiving()
    with pytest.raises(ValueError, match="time"):
        receiver.receive(RECORDED, orjson.dumps(orjson.loads(sent[0]) | forged))


def test_a_job_sends_spans_of_its_own_trace_only() -> None:
    sent: list[bytes] = []
    provider = ChildTracerProvider()
    provider.send = sent.append
    provider.get_tracer("test").start_span("of another", remote_context(OTHER)).end()
    there, receiver = _receiving()
    receiver.receive(RECORDED, sent[0])
    receiver.receive(None, sent[0])
    assert there.get_finished_spans() == ()
    forged = orjson.loads(sent[0]) | {"ids": ["0af7651916cd43dd8448eb211c80319c", "f" * 17]}
    with pytest.raises(ValueError, match="span"):
        receiver.receive(RECORDED, orjson.dumps(forged))


def test_a_zygote_does_not_import_the_sdk() -> None:
    subprocess.run([sys.executable, "-c", IN_A_ZYGOTE], check=True)


def _put(outlet: FastSpanProcessor, count: int = 1) -> None:
    for _ in range(count):
        outlet.put((JOB[:7], None, None, 1, 2))


def _within(job: ClaimedJob, ask: Callable[[], T]) -> T:
    """Call the function in the context of the job."""

    def run() -> T:
        CURRENT_JOB.set(job)
        return ask()

    return copy_context().run(run)


def _sent(posts: list[bytes]) -> list[Span]:
    (request,) = map(ExportTraceServiceRequest.FromString, posts)
    return list(request.resource_spans[0].scope_spans[0].spans)


def _receiving() -> tuple[InMemorySpanExporter, ChildSpanReceiver]:
    there = InMemorySpanExporter()
    return there, ChildSpanReceiver(SimpleSpanProcessor(there), Resource.get_empty())


def _work(tracer: Tracer) -> None:
    """Use every feature of spans."""
    enqueued = get_current_span().get_span_context()
    links = [Link(enqueued, {"why": "asked", "n": [1]})]
    with tracer.start_as_current_span(
        "outer", kind=SpanKind.CLIENT, links=links, attributes={"n": [1, 2]}
    ) as span:
        span.add_event("seen", {"by": "ada"}, 5)
        span.set_attributes({str(n): n for n in range(130)})
        span.add_link(INVALID_SPAN_CONTEXT)
        span.add_link(enqueued, {str(n): n for n in range(130)})
        span.update_name("renamed")
        span.set_status(StatusCode.ERROR, "it was in vain")
        span.set_status(StatusCode.OK)
        span.set_status(StatusCode.ERROR, "too late")
    with suppress(ValueError), tracer.start_as_current_span("fails"):
        raise ValueError("no such card")
    with suppress(LeaseLost), tracer.start_span("fails too"):
        raise LeaseLost
    with (
        suppress(LookupError),
        tracer.start_span(
            "says nothing of it", record_exception=False, set_status_on_exception=False
        ),
    ):
        raise LookupError
    decorated = tracer.start_as_current_span("around a coroutine")(_pay)
    asyncio.run(decorated())


async def _pay() -> None:
    await asyncio.sleep(0)
    get_current_span().set_attribute("paid", value=True)


def _count(request: bytes) -> int:
    (resource,) = ExportTraceServiceRequest.FromString(request).resource_spans
    return len(resource.scope_spans[0].spans)


def _comparable(span: ReadableSpan) -> dict[str, object]:
    """Return the span without its ID and times; a traceback is reduced to its first and last
    line."""
    document = orjson.loads(span.to_json())
    for name in ("resource", "context", "start_time", "end_time"):
        del document[name]
    for event in document["events"]:
        if event["name"] == "exception":
            del event["timestamp"]
            trace_of = event["attributes"]["exception.stacktrace"].splitlines()
            event["attributes"]["exception.stacktrace"] = [trace_of[0], trace_of[-1]]
    return {**document, "scope": span.instrumentation_scope}
