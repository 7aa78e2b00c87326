"""The configuration of tracing, and spans that are sent between processes."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar
from uuid import UUID

import orjson
import pytest
from opentelemetry import trace
from opentelemetry.baggage import get_baggage, set_baggage
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
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
from jobforge.observability.tracing.parent import remote_context
from jobforge.observability.tracing.sampling import (
    DrawnIds,
    ParentBasedSampling,
    read_sampling_ratio,
)
from jobforge.observability.tracing.setup import find_exporter_name
from jobforge.observability.tracing.span_transfer import SpanReceiver, create_provider
from jobforge.sdk.verdict import Verdict
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus, JobRequest, Outcome
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
from opentelemetry import trace
tracer = trace.get_tracer("the application")
from uuid import UUID
from jobforge.types.jobs import ClaimedJob
JOB = {job!r}
from jobforge.observability import tracing
tracing.prepare_child_tracing()
assert tracing.is_enabled()
assert tracing.current_traceparent() is None
for traceparent in (None, "{recorded}"[:-2] + "00", "{recorded}"):
    tracing.enter_job(JOB._replace(traceparent=traceparent), lambda body: print(body.decode()))
    within = tracing.current_traceparent()
    assert within == traceparent or traceparent is None and JOB.job_id.hex in within
    with trace.get_tracer("the application").start_as_current_span("charge"):
        pass
tracing.flush_job()
"""
APP_PROVIDER = """
import sys
from opentelemetry import trace
class Provider(trace.TracerProvider):
    def get_tracer(self, *_): return trace.NoOpTracer()
trace.set_tracer_provider(Provider())
from jobforge.observability import tracing
tracing.prepare_child_tracing()
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


def test_a_drawn_trace_id_is_that_of_the_next_span() -> None:
    ids = DrawnIds()
    provider = TracerProvider(ParentBasedTraceIdRatio(0.5), id_generator=ids)
    tracer, sampling = provider.get_tracer("test"), ParentBasedSampling(0.5, ids)
    for _ in range(100):
        is_sampled = sampling.is_sampled(None)
        assert tracer.start_span("charge", Context()).is_recording() is is_sampled


@pytest.mark.parametrize("is_drawn", [False, True])
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
    share: float, traceparent: str | None, *, is_recorded: bool, is_drawn: bool
) -> None:
    ids = DrawnIds()
    provider = TracerProvider(ParentBasedTraceIdRatio(share), id_generator=ids)
    sampling = ParentBasedSampling(share, ids) if is_drawn else None
    attempts = AttemptSpans(provider.get_tracer("test"), sampling)
    begun = attempts.begin(JOB._replace(traceparent=traceparent))
    within = tracing.read_traceparent(_within(begun, tracing.current_traceparent))
    assert trace.get_current_span().is_recording() is is_recorded
    attempts.leave()
    assert within is not None
    assert bool(int(within.flags, 16) & 1) is is_recorded
    assert begun.traceparent == (str(within) if is_recorded else traceparent)
    assert is_recorded or within.trace_id in (traceparent or JOB.job_id.hex)
    assert tracing.current_traceparent() is None


def test_an_attempts_span_follows_the_semantic_conventions_for_messaging() -> None:
    exporter, attempts = _attempts()
    attempts.begin(JOB._replace(traceparent=RECORDED))
    attempts.end(Verdict(Outcome.SUCCEEDED))
    attempts.leave()
    (received,) = exporter.get_finished_spans()
    assert (received.name, received.kind) == ("run mail", SpanKind.CONSUMER)
    assert dict(received.attributes or {}) == {
        "messaging.system": "jobforge",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(JOB.job_id),
        "jobforge.definition": "mail@1",
        "jobforge.queue": "default",
        "jobforge.tenant.id": str(JOB.tenant_id),
        "jobforge.attempt": 1,
        "jobforge.lease": 1,
        "jobforge.outcome": "succeeded",
    }


@pytest.mark.parametrize("count", [1, 2])
def test_only_an_enqueue_of_several_jobs_has_a_batch_count(
    provider: TracerProvider, count: int
) -> None:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    jobs = [JobRequest("mail")] * count
    created = [Enqueued(JOB.job_id, EnqueueStatus.CREATED)] * count
    with tracing.enqueue_span(jobs):
        assert list(tracing.record_enqueued(jobs, iter(created))) == created
    (received,) = exporter.get_finished_spans()
    assert (received.name, received.kind) == ("enqueue mail", SpanKind.PRODUCER)
    one_or_many = (
        {"messaging.message.id": str(JOB.job_id)}
        if count == 1
        else {"messaging.batch.message_count": 2}
    )
    assert dict(received.attributes or {}) == {
        "messaging.system": "jobforge",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        **one_or_many,
    }


def test_data_added_to_an_attempt_is_in_its_span() -> None:
    exporter, attempts = _attempts()
    job = attempts.begin(JOB)
    span = trace.get_current_span()
    attempts.leave()
    span.set_attribute("order", 5)
    span.add_event("paid")
    attempts.end(Verdict(Outcome.SUCCEEDED))
    span.set_attribute("order", 6)
    (received,) = exporter.get_finished_spans()
    assert tracing.traceparent_of(span) == job.traceparent
    assert received.context == span.get_span_context()
    assert received.attributes is not None
    assert (received.attributes["order"], received.attributes["jobforge.outcome"]) == (
        5,
        "succeeded",
    )
    assert [event.name for event in received.events] == ["paid"]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, None])
def test_the_job_of_a_failed_attempt_has_the_traceparent_of_its_span(
    outcome: Outcome | None,
) -> None:
    exporter, attempts = _attempts()
    job = attempts.begin(JOB)
    attempts.end(None if outcome is None else Verdict(outcome))
    attempts.leave()
    (received,) = exporter.get_finished_spans()
    assert job.traceparent == tracing.traceparent_of(trace.NonRecordingSpan(received.context))
    assert job == JOB._replace(traceparent=job.traceparent)
    assert received.status.status_code is StatusCode.ERROR


def test_a_waiting_attempt_keeps_its_span_while_others_run() -> None:
    exporter, attempts = _attempts()
    variables = []
    for lease in (1, 2):
        job = attempts.begin(JOB._replace(lease=lease))
        attempts.keep(job)
        variables.append((job, copy_context()))
    attempts.leave()
    seen = [each.run(trace.get_current_span) for _, each in variables]
    assert len({span.get_span_context().span_id for span in seen}) == 2
    job, _ = variables[0]
    attempts.end_kept(job, None)
    (received,) = exporter.get_finished_spans()
    assert received.context == seen[0].get_span_context()
    assert job.traceparent == tracing.traceparent_of(seen[0])
    assert [span.is_recording() for span in seen] == [False, True]


def test_spans_started_in_an_attempt_are_children_of_its_span() -> None:
    _, attempts = _attempts()
    tracer = TracerProvider().get_tracer("test")
    attempts.begin(JOB)
    around = trace.get_current_span().get_span_context().span_id
    baggage = set_baggage("color", "green")
    with tracer.start_as_current_span("inner") as inner:
        assert trace.get_current_span() is inner
        assert isinstance(inner, ReadableSpan)
        assert inner.parent is not None
        assert inner.parent.span_id == around
        assert get_baggage("color", baggage) == "green"
    attempts.leave()
    assert tracing.current_traceparent() is None


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
    provider = create_provider(partial(receiver.receive, traceparent))
    for each in (sdk, provider):
        token = attach(remote_context(traceparent))
        _work(each.get_tracer("the application", "1.0"))
        detach(token)
    received = list(map(_comparable, there.get_finished_spans()))
    assert len(received) == 5
    assert received == list(map(_comparable, here.get_finished_spans()))


def test_spans_of_a_job_are_nested_and_have_times() -> None:
    there, receiver = _receiving()
    provider = create_provider(partial(receiver.receive, RECORDED))
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
    provider = create_provider(sent.append)
    token = attach(remote_context(traceparent))
    with provider.get_tracer("test").start_as_current_span("charge"):
        within = tracing.read_traceparent(tracing.current_traceparent())
    detach(token)
    assert within is not None
    assert traceparent is None or within.trace_id in traceparent
    assert not within.is_recorded
    assert sent == []


def test_an_attempt_sends_at_most_a_thousand_spans() -> None:
    sent: list[bytes] = []
    provider = create_provider(sent.append)
    tracer = provider.get_tracer("test")
    for _ in range(1_001):
        tracer.start_span("charge", remote_context(RECORDED)).end()
    assert len(sent) == 1_000


def test_data_added_to_a_span_after_its_end_is_discarded() -> None:
    sent: list[bytes] = []
    provider = create_provider(sent.append)
    span = provider.get_tracer("test").start_span("charge", remote_context(RECORDED))
    span.end()
    span.set_attribute("order", 5)
    span.end()
    assert not span.is_recording()
    assert [orjson.loads(body)["attributes"] for body in sent] == [{}]


def test_span_data_that_cannot_be_sent_does_not_fail_the_job() -> None:
    there, receiver = _receiving()
    provider = create_provider(partial(receiver.receive, RECORDED))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("read", remote_context(RECORDED)) as span:
        span.set_attributes({"name": "caf\udce9", "size": 2**70})
        span.update_name(7)  # type: ignore[arg-type]
    (received,) = there.get_finished_spans()
    assert received.name == "7"
    assert dict(received.attributes or {}) == {"name": "caf?", "size": "<int>"}


def test_a_span_that_is_too_large_is_omitted() -> None:
    provider = create_provider(partial(encode_frame, FrameKind.SPAN))  # type: ignore[arg-type]
    span = provider.get_tracer("test").start_span("read", remote_context(RECORDED))
    span.set_attribute("text", "x" * MAX_FRAME_BYTES)
    span.end()
    assert not span.is_recording()


@pytest.mark.parametrize(
    "forged", [{"start": -1}, {"end": 2.0**64}, {"events": [["seen", {}, -1]]}]
)
def test_times_that_would_make_an_exporter_fail_are_refused(forged: dict[str, object]) -> None:
    sent: list[bytes] = []
    provider = create_provider(sent.append)
    provider.get_tracer("test").start_span("read", remote_context(RECORDED)).end()
    _, receiver = _receiving()
    with pytest.raises(ValueError, match="time"):
        receiver.receive(RECORDED, orjson.dumps(orjson.loads(sent[0]) | forged))


def test_a_job_sends_spans_of_its_own_trace_only() -> None:
    sent: list[bytes] = []
    provider = create_provider(sent.append)
    provider.get_tracer("test").start_span("of another", remote_context(OTHER)).end()
    there, receiver = _receiving()
    receiver.receive(RECORDED, sent[0])
    receiver.receive(None, sent[0])
    assert there.get_finished_spans() == ()
    forged = orjson.loads(sent[0]) | {"ids": ["0af7651916cd43dd8448eb211c80319c", "f" * 17]}
    with pytest.raises(ValueError, match="span"):
        receiver.receive(RECORDED, orjson.dumps(forged))


def test_jobs_of_a_zygote_send_the_spans_of_sampled_attempts() -> None:
    code = IN_A_ZYGOTE.format(recorded=RECORDED, job=JOB)
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    sent = [orjson.loads(line) for line in run.stdout.splitlines()]
    assert [span["name"] for span in sent] == ["charge"]
    assert "-".join(sent[0]["parent"]) in RECORDED


def test_a_zygote_whose_app_has_a_provider_does_not_need_the_sdk() -> None:
    subprocess.run([sys.executable, "-c", APP_PROVIDER], check=True)


def _within(job: ClaimedJob, ask: Callable[[], T]) -> T:
    """Call the function in the context of the job."""

    def run() -> T:
        CURRENT_JOB.set(job)
        return ask()

    return copy_context().run(run)


def _attempts() -> tuple[InMemorySpanExporter, AttemptSpans]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, AttemptSpans(provider.get_tracer("test"))


def _receiving() -> tuple[InMemorySpanExporter, SpanReceiver]:
    there = InMemorySpanExporter()
    return there, SpanReceiver(SimpleSpanProcessor(there), Resource.get_empty())


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
