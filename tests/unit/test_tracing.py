"""Setting up traces, and spans on their way between processes."""

import subprocess
import sys
from collections.abc import Iterator
from uuid import UUID

import orjson
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, StatusCode

from jobforge import tracing
from jobforge.job import ClaimedJob, JobRequest
from jobforge.tracing.attempts import Attempts
from jobforge.tracing.export import exporter_named
from jobforge.tracing.passage import Receiver, Sender
from jobforge.tracing.sampling import Sampling, read_share

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
import jobforge.cli.serving, jobforge.api, jobforge.isolation.zygote
from jobforge import tracing
assert not tracing.is_on()
assert tracing.find_attempts() is None
assert "opentelemetry" not in sys.modules
"""


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    made = TracerProvider()
    tracing.use(made)
    yield made
    tracing.use(None)


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
    assert exporter_named(variables) == exporter


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
def test_a_worker_knows_what_the_usual_samplers_say(
    sampler: str, argument: str, share: float | None
) -> None:
    variables = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert read_share(variables) == share


@pytest.mark.parametrize(
    ("share", "traceparent", "is_recorded"),
    [
        (0.0, None, False),
        (1.0, None, True),
        (0.0, RECORDED, True),
        (1.0, f"{RECORDED[:-2]}00", False),
    ],
)
def test_what_the_enqueuer_has_decided_holds_and_else_a_share_is_recorded(
    provider: TracerProvider, share: float, traceparent: str | None, *, is_recorded: bool
) -> None:
    attempts = Attempts(Sampling(share, provider.get_tracer("test")))
    job = JOB._replace(traceparent=traceparent)
    begun = attempts.begin(job)
    within = tracing.read_traceparent(tracing.current())
    attempts.leave()
    assert within is not None
    assert bool(int(within.flags, 16) & 1) is is_recorded
    assert begun.traceparent == (str(within) if is_recorded else traceparent)
    assert is_recorded or within.trace_id in (traceparent or JOB.job_id.hex)
    assert tracing.current() is None


def test_an_exporter_that_is_not_there_costs_a_line_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nowhere")
    tracing.configure("jobforge-test")
    assert not tracing.is_on()
    assert "no exporter nowhere is installed" in caplog.text


def test_where_nobody_traces_nothing_of_it_is_imported() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_IT], check=True)


def test_a_job_that_names_its_trace_keeps_it(provider: TracerProvider) -> None:
    jobs = [JobRequest("mail", traceparent="00-1"), JobRequest("mail", {"to": "ada"}, queue="q")]
    with provider.get_tracer("test").start_as_current_span("outer"):
        named, other = tracing.carrying(jobs)
        assert named is jobs[0]
        assert other == jobs[1]._replace(traceparent=tracing.current())


def test_a_span_arrives_as_it_was(provider: TracerProvider) -> None:
    sent: list[bytes] = []
    sender = Sender(sent.append)
    here = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(here))
    provider.add_span_processor(sender)
    tracer = provider.get_tracer("the application", "1.0")
    with tracer.start_as_current_span("outer") as outer:
        link = Link(outer.get_span_context())
        with tracer.start_as_current_span("inner", links=[link], attributes={"n": [1, 2]}) as span:
            span.add_event("seen", {"by": "ada"})
            span.set_status(StatusCode.ERROR, "it was in vain")
    there = InMemorySpanExporter()
    receiver = Receiver(SimpleSpanProcessor(there), Resource.get_empty())
    for body in sent:
        receiver.take(tracing.traceparent_of(outer), body)
    assert list(map(_told, there.get_finished_spans())) == list(
        map(_told, here.get_finished_spans())
    )


def test_a_job_tells_of_its_own_trace_only(provider: TracerProvider) -> None:
    sent: list[bytes] = []
    sender = Sender(sent.append)
    provider.add_span_processor(sender)
    provider.get_tracer("test").start_span("of another").end()
    there = InMemorySpanExporter()
    receiver = Receiver(SimpleSpanProcessor(there), Resource.get_empty())
    receiver.take(RECORDED, sent[0])
    receiver.take(None, sent[0])
    assert there.get_finished_spans() == ()
    forged = orjson.loads(sent[0]) | {"ids": ["0af7651916cd43dd8448eb211c80319c", "f" * 17]}
    with pytest.raises(ValueError, match="span"):
        receiver.take(RECORDED, orjson.dumps(forged))


def _told(span: ReadableSpan) -> dict[str, object]:
    document = orjson.loads(span.to_json())
    del document["resource"]
    return {**document, "scope": span.instrumentation_scope}
