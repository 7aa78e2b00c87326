"""Traces from the enqueuing code through attempts, steps and processes to external requests."""

import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.loopback_server import run_loopback_server
from integration.span_recorder import SpanRecorder, are_nested, record_spans
from integration.terminal import Terminal
from integration.trace_collector import run_trace_collector
from integration.worker_harness import WorkerHarness
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from jobforge import Context, JobForge, Retry, calls, db
from jobforge.config import Config
from jobforge.connectors.egress import EgressClient, EgressRequest, policy_from_config
from jobforge.observability import logs, tracing
from jobforge.types.jobs import JobRequest

pytestmark = pytest.mark.anyio

APP = """
from opentelemetry import trace
from jobforge import Context, JobForge, Retry

jf = JobForge()
tracer = trace.get_tracer("the application")

@jf.job
def order(ctx: Context) -> None:
    ctx.step("pay", pay)
    receipt.enqueue()

def pay() -> None:
    with tracer.start_as_current_span("charge", attributes={"card.token": "tok_1234"}):
        pass

@jf.job(isolation="inline")
async def receipt() -> None:
    trace.get_current_span().set_attribute("paper", "thick")

@jf.job(isolation="inline")
async def count() -> None:
    await refuse.aenqueue()

@jf.job(isolation="inline", retry=Retry(max_attempts=1))
async def refuse() -> None:
    raise ValueError
"""


OWN = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from jobforge import JobForge

class Output:
    def write(self, text): sys.stdout.write(text)
    def flush(self): sys.stdout.flush()

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=Output())))
trace.set_tracer_provider(provider)
jf = JobForge()

@jf.job
def order() -> None:
    with trace.get_tracer("the application").start_as_current_span("charge"):
        pass
"""
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def recorder() -> Iterator[SpanRecorder]:
    with record_spans() as recorder:
        yield recorder


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    db.run(conn, calls.put_tenant(TENANT_A, {"slug": "acme"}))
    return WorkerHarness(database, conn)


async def test_one_trace_leads_from_the_caller_to_the_steps_of_an_inline_job(
    harness: WorkerHarness, recorder: SpanRecorder
) -> None:
    said = io.StringIO()

    @harness.app.job(isolation="inline")
    async def order(ctx: Context) -> None:
        await ctx.step("pay", pay)
        await inner.using(tenant=TENANT_A).aenqueue()

    async def pay() -> None:
        with recorder.tracer.start_as_current_span("charge"):
            logs.emit("charged")

    @harness.app.job(isolation="inline")
    async def inner() -> None: ...

    harness.register()
    logs.configure(format="json", level="debug", stream=said)
    try:
        async with harness.running_worker():
            with recorder.tracer.start_as_current_span("sign up"):
                handle = await order.using(tenant=TENANT_A).aenqueue()
            await harness.wait_for_state(handle.id)
    finally:
        logs.unconfigure()
    one = recorder.span_named
    run = one("run order")
    assert are_nested(
        *(one("sign up"), one("enqueue order"), run, one("step pay"), one("charge")),
    )
    assert are_nested(run, one("enqueue inner"))
    assert (one("enqueue order").kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [link.context.span_id for link in run.links] == [one("enqueue order").context.span_id]
    assert run.attributes is not None
    names = ("messaging.message.id", "jobforge.outcome", "jobforge.attempt")
    assert [run.attributes[name] for name in names] == [str(handle.id), "succeeded", 1]
    assert (one("enqueue order").attributes or {})["messaging.message.id"] == str(handle.id)
    lines = [json.loads(line) for line in said.getvalue().splitlines()]
    ids = {
        line["event"]: line.get("span_id") for line in lines if line.get("job_id") == str(handle.id)
    }
    assert ids["job.started"] == ids["job.finished"] == f"{run.context.span_id:016x}"
    assert ids["charged"] == f"{one('charge').context.span_id:016x}"
    traces = {line["trace_id"] for line in lines if line.get("job_id") == str(handle.id)}
    assert traces == {f"{run.context.trace_id:032x}"}


async def test_an_attempt_that_fails_is_a_failed_span_of_the_same_trace(
    harness: WorkerHarness, recorder: SpanRecorder
) -> None:
    @harness.app.job(isolation="inline", retry=Retry(max_attempts=2, base=0))
    async def charge(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("the password is password=hunter22")

    harness.register()
    async with harness.running_worker():
        handle = await charge.using(tenant=TENANT_A).aenqueue()
        await harness.wait_for_state(handle.id)
    enqueued = recorder.span_named("enqueue charge")
    first, second = recorder.spans_named("run charge")
    assert are_nested(enqueued, first)
    assert are_nested(enqueued, second)
    assert first.attributes is not None
    assert first.attributes["error.type"] == "ValueError"
    assert first.status.status_code is StatusCode.ERROR
    assert "hunter22" not in str(first.status.description)
    assert second.status.status_code is StatusCode.UNSET


async def test_jobs_enqueued_together_share_a_trace(
    harness: WorkerHarness, recorder: SpanRecorder, conn: Connection
) -> None:
    @harness.app.job(isolation="inline")
    async def order(n: int) -> None: ...

    harness.register()
    await order.using(tenant=TENANT_A).aenqueue_many([order.args(n) for n in range(3)])
    context = recorder.span_named("enqueue order").context
    assert context is not None
    rows = conn.execute("select traceparent from jobforge.jobs").fetchall()
    parents = [row["traceparent"].split("-")[2] for row in rows]
    assert parents == [f"{context.span_id:016x}"] * 3


async def test_an_unsampled_trace_is_not_sampled_in_the_job(
    harness: WorkerHarness, recorder: SpanRecorder
) -> None:
    carried: list[str | None] = []

    @harness.app.job(isolation="inline")
    async def order() -> None:
        with recorder.tracer.start_as_current_span("charge"):
            carried.append(tracing.current_traceparent())

    harness.register()
    unrecorded = TracerProvider(sampler=ALWAYS_OFF).get_tracer("the test")
    async with harness.running_worker():
        with unrecorded.start_as_current_span("sign up") as outer:
            handle = await order.using(tenant=TENANT_A).aenqueue()
        await harness.wait_for_state(handle.id)
    assert recorder.spans_named("run order") == recorder.spans_named("charge") == []
    (traceparent,) = map(tracing.read_traceparent, carried)
    assert traceparent is not None
    assert traceparent.trace_id == f"{outer.get_span_context().trace_id:032x}"
    assert not int(traceparent.flags, 16) & 1


def test_workflows_batches_and_events_continue_the_span_in_which_they_were_created(
    harness: WorkerHarness, recorder: SpanRecorder
) -> None:
    @harness.app.job
    def order() -> None: ...

    harness.register()
    with recorder.tracer.start_as_current_span("sign up") as span:
        with harness.app.workflow("bill", tenant=TENANT_A) as flow:
            node = order.node()
        with harness.app.batch(tenant=TENANT_A) as batch:
            batch.add(order.args())
        batch.handle.add(order.args())
        harness.app.emit("paid", tenant=TENANT_A)
        jobs = [node.id, *flow.handle.detail().result]
    rows = harness.conn.execute(
        "select traceparent from jobforge.jobs union all select traceparent from jobforge.events"
    ).fetchall()
    assert jobs
    assert [row["traceparent"] for row in rows] == [tracing.traceparent_of(span)] * 4
    harness.app.close()


async def test_an_external_request_carries_its_span(
    recorder: SpanRecorder,
) -> None:
    async with run_loopback_server(b"HTTP/1.1 404 Nowhere\r\ncontent-length: 0\r\n\r\n") as server:
        allowed = Config(egress_allow=(f"127.0.0.1:{server.port}",), egress_http=True)
        egress = EgressClient(policy_from_config(allowed))
        with recorder.tracer.start_as_current_span("run"):
            await egress.send(EgressRequest("GET", server.url, traceparent=OTHER))
            await egress.send(EgressRequest("GET", server.url, (("Traceparent", OTHER),)))
    first, second = recorder.spans_named("GET")
    assert are_nested(recorder.span_named("run"), first)
    assert first.status.status_code is StatusCode.ERROR
    own = f"traceparent: 00-{first.context.trace_id:032x}-{first.context.span_id:016x}-"
    sent = [request.decode().lower() for request in server.requests]
    assert own in sent[0]
    assert OTHER not in sent[0]
    assert f"traceparent: {OTHER}" in sent[1]
    assert f"{second.context.span_id:016x}" not in sent[1]


def test_an_applications_exporter_is_used_in_every_process(
    database: Database, conn: Connection, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(OWN)
    db.run(conn, calls.put_tenant(TENANT_A, {"slug": "acme"}))
    shell = Terminal(tmp_path, JOBFORGE_DATABASE_URL=database.url, OTEL_BSP_SCHEDULE_DELAY="600000")
    with shell.start("worker", "--no-connectors", "--log-level", "debug") as worker:
        worker.wait_for('"worker.started"')
        db.run(conn, calls.enqueue_job(JobRequest("order"), tenant_id=TENANT_A))
        worker.wait_for('"job.finished"')
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0
    (row,) = conn.execute("select stdout_tail from jobforge.all_attempts").fetchall()
    in_job, in_worker = json.loads(row["stdout_tail"]), worker.output
    assert in_job["name"] == "charge"
    assert in_job["parent_id"] in in_worker
    assert '"name": "run order"' in in_worker


def test_a_worker_sends_the_spans_of_isolated_jobs(
    database: Database, conn: Connection, recorder: SpanRecorder, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    db.run(conn, calls.put_tenant(TENANT_A, {"slug": "acme"}))
    app = JobForge(database.url, tenant=TENANT_A)

    @app.job
    def order() -> None: ...

    with run_trace_collector() as collector:
        shell = Terminal(
            tmp_path,
            JOBFORGE_DATABASE_URL=database.url,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_HEADERS="api-key=of-the-collector",
        )
        with shell.start("worker", "--log-level", "debug", "--no-connectors") as worker:
            worker.wait_for('"worker.started"')
            order.enqueue()
            worker.wait_for('"job.finished"', times=2)
            worker.signal(signal.SIGTERM)
            assert worker.wait_for_exit() == 0
    app.close()
    reported = {each.name: each for each in collector.spans}
    enqueued = recorder.span_named("enqueue order")
    assert enqueued.context is not None
    way = ("run order", "step pay", "charge")
    parents = [reported[name].parent_id for name in way]
    ids = [reported[name].span_id for name in way]
    assert parents == [f"{enqueued.context.span_id:016x}", *ids[:-1]]
    assert reported["enqueue receipt"].parent_id == reported["run order"].span_id
    assert reported["run receipt"].parent_id == reported["enqueue receipt"].span_id
    assert {each.trace_id for each in collector.spans} == {f"{enqueued.context.trace_id:032x}"}
    assert {each.service for each in collector.spans} == {"jobforge-worker"}
    assert reported["charge"].attributes == {"card.token": "[redacted]"}
    assert reported["run order"].attributes["jobforge.outcome"] == "succeeded"
    assert reported["run receipt"].attributes["jobforge.outcome"] == "succeeded"
    assert reported["run receipt"].attributes["paper"] == "thick"
    lines = [json.loads(line) for line in worker.output.splitlines()]
    spans = {
        line["definition"]: line["span_id"] for line in lines if line["event"] == "job.finished"
    }
    assert spans == {
        "order@1": reported["run order"].span_id,
        "receipt@1": reported["run receipt"].span_id,
    }


def test_log_lines_and_spans_of_a_job_share_their_trace_id(
    database: Database, conn: Connection, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    db.run(conn, calls.put_tenant(TENANT_A, {"slug": "acme"}))
    with run_trace_collector() as collector:
        shell = Terminal(
            tmp_path,
            JOBFORGE_DATABASE_URL=database.url,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        )
        with shell.start("worker", "--no-connectors") as worker:
            worker.wait_for('"worker.started"')
            db.run(conn, calls.enqueue_jobs([JobRequest("count")], tenant_id=TENANT_A))
            conn.commit()
            worker.wait_for('"job.dead"')
            worker.signal(signal.SIGTERM)
            assert worker.wait_for_exit() == 0
    reported = {each.name: each for each in collector.spans}
    assert reported["run count"].parent_id == ""
    assert reported["enqueue refuse"].parent_id == reported["run count"].span_id
    assert reported["run refuse"].parent_id == reported["enqueue refuse"].span_id
    assert len({each.trace_id for each in collector.spans}) == 1
    (dead,) = (line for line in map(json.loads, worker.output.splitlines()) if "job_id" in line)
    assert dead["trace_id"] == reported["run refuse"].trace_id
    assert dead["span_id"] == reported["run refuse"].span_id
