"""Inline handlers: they start at once, and still behave like other asyncio tasks."""

import asyncio
import io
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from integration.worker_harness import eventually

from jobforge import Context, JobForge
from jobforge.errors import Json, NotFound, TenantRequired
from jobforge.observability import logs
from jobforge.redact import RedactionScope
from jobforge.sdk.call_context import choose_tenant
from jobforge.sdk.definition import Definition
from jobforge.sdk.worker_requests import WorkerRequest
from jobforge.types.jobs import ClaimedJob, Outcome
from jobforge.worker.inline import InlineRun, InlineRunner
from jobforge.worker.runner_protocol import Report, StopReason

T = TypeVar("T")

pytestmark = pytest.mark.anyio

VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="untouched")


class InlineHost:
    """A host that records notes, requests and reports."""

    def __init__(self) -> None:
        self.worker_id = uuid4()
        self.app = JobForge()
        self.notes: list[tuple[str, dict[str, Json]]] = []
        self.reports: dict[UUID, Report] = {}
        self.runner = InlineRunner(self)

    def note(
        self,
        job: ClaimedJob,  # noqa: ARG002 - required by the protocol of a host
        kind: str,
        data: dict[str, Json],
        scope: RedactionScope,  # noqa: ARG002 - required by the protocol of a host
    ) -> None:
        self.notes.append((kind, data))

    async def request(self, job: ClaimedJob, request: WorkerRequest[T]) -> T:
        raise NotImplementedError

    def secret(self, name: str) -> str:
        raise NotFound(name)

    def start(self, definition: Definition[..., Any], **payload: Json) -> InlineRun | UUID:
        """Start a job; return its run, or its ID if it has finished already."""
        job = definition.fake_claimed_job(payload, uuid4())
        run = self.runner.start(job, definition, self._keep)
        if isinstance(run, InlineRun):
            return run
        self._keep(job, run)
        return job.job_id

    def begin(self, definition: Definition[..., Any], **payload: Json) -> InlineRun:
        run = self.start(definition, **payload)
        assert isinstance(run, InlineRun)
        return run

    def outcome(self, definition: Definition[..., Any], **payload: Json) -> Outcome:
        """Return the outcome of a handler that never waits."""
        job_id = self.start(definition, **payload)
        assert isinstance(job_id, UUID)
        return _outcome(self.reports[job_id])

    async def wait_for_end(self, run: InlineRun) -> Report:
        await eventually(lambda: run.job.job_id in self.reports)
        return self.reports[run.job.job_id]

    def _keep(self, job: ClaimedJob, report: Report) -> None:
        assert job.job_id not in self.reports
        self.reports[job.job_id] = report


@pytest.fixture
async def host() -> AsyncIterator[InlineHost]:
    created = InlineHost()
    await created.runner.open()
    yield created
    await created.runner.close()


def _outcome(report: Report) -> Outcome:
    assert report.verdict is not None
    return report.verdict.outcome


async def test_a_handler_that_never_waits_finishes_during_its_start(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def double(number: int) -> int:
        return number * 2

    job_id = host.start(double, number=21)
    assert isinstance(job_id, UUID)
    verdict = host.reports[job_id].verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.result) == (Outcome.SUCCEEDED, 42)


async def test_the_exception_of_a_handler_decides_the_outcome(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def leave(*, wait: bool) -> None:
        if wait:
            await asyncio.sleep(0)
        raise GeneratorExit

    assert host.outcome(leave, wait=False) is Outcome.FAILED
    assert _outcome(await host.wait_for_end(host.begin(leave, wait=True))) is Outcome.FAILED


async def test_handlers_that_never_wait_do_not_see_the_workers_task(host: InlineHost) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @host.app.job(isolation="inline")
    async def look() -> None:
        tasks.append(asyncio.current_task())

    for _ in range(10):
        host.start(look)
    assert not {None, asyncio.current_task()} & set(tasks)
    if sys.version_info < (3, 12):  # there they share a placeholder
        assert len(set(tasks)) == 1


async def test_a_waiting_handler_has_one_task_from_start_to_end(
    host: InlineHost,
) -> None:
    seen: dict[str, list[asyncio.Task[Any] | None]] = {"a": [], "b": []}

    @host.app.job(isolation="inline")
    async def look(name: str) -> None:
        seen[name].append(asyncio.current_task())
        await asyncio.sleep(0)
        seen[name].append(asyncio.current_task())

    for run in [host.begin(look, name="a"), host.begin(look, name="b")]:
        await host.wait_for_end(run)
    assert len(set(seen["a"])) == len(set(seen["b"])) == 1
    assert seen["a"][0] is not seen["b"][0]


async def test_a_timeout_within_a_handler_affects_only_that_handler(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def wait_for_ever() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "woke up"

    report = await host.wait_for_end(host.begin(wait_for_ever))
    assert report.verdict is not None
    assert report.verdict.result == "timed out"
    assert asyncio.current_task() is not None


async def test_a_task_group_works_in_a_handler(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def spread() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, number)) for number in (1, 2, 3)]
        return sum(task.result() for task in tasks)

    report = await host.wait_for_end(host.begin(spread))
    assert report.verdict is not None
    assert report.verdict.result == 6


@pytest.mark.parametrize("waits", [False, True])
async def test_context_variables_do_not_leak_between_jobs(host: InlineHost, *, waits: bool) -> None:
    seen: list[str] = []

    @host.app.job(isolation="inline")
    async def mark(value: str) -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set(value)
        if waits:
            await asyncio.sleep(0)
        seen.append(VARIABLE.get())

    for value in ("one", "two"):
        run = host.start(mark, value=value)
        if isinstance(run, InlineRun):
            await host.wait_for_end(run)
    assert seen == ["untouched", "one", "untouched", "two"]
    assert VARIABLE.get() == "untouched"


async def test_a_handler_that_cancels_its_own_task_does_not_cancel_the_next(
    host: InlineHost,
) -> None:
    @host.app.job(isolation="inline")
    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @host.app.job(isolation="inline")
    async def wait() -> None:
        await asyncio.sleep(0)

    host.start(cancel_myself)
    assert _outcome(await host.wait_for_end(host.begin(wait))) is Outcome.SUCCEEDED


async def test_a_handler_that_cancels_itself_and_then_waits_is_cancelled(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    assert _outcome(await host.wait_for_end(host.begin(cancel_myself))) is Outcome.FAILED


@pytest.mark.parametrize(
    ("why", "outcome"),
    [
        (StopReason.CANCEL, Outcome.CANCELED),
        (StopReason.TIMEOUT, Outcome.TIMED_OUT),
        (StopReason.SHUTDOWN, Outcome.RELEASED),
    ],
)
async def test_a_stopped_handler_ends_with_the_reason_of_the_stop(
    host: InlineHost, why: StopReason, outcome: Outcome
) -> None:
    @host.app.job(isolation="inline")
    async def wait() -> None:
        await asyncio.Event().wait()

    run = host.begin(wait)
    run.stop(why)
    run.stop(why)
    assert _outcome(await host.wait_for_end(run)) is outcome


async def test_a_stop_cancels_what_the_handler_awaits(host: InlineHost) -> None:
    inner: list[asyncio.Task[Any]] = []

    @host.app.job(isolation="inline")
    async def wait() -> None:
        inner.append(asyncio.create_task(asyncio.Event().wait()))
        await inner[0]

    run = host.begin(wait)
    run.stop(StopReason.CANCEL)
    await host.wait_for_end(run)
    assert inner[0].cancelled()


async def test_a_handler_without_its_lease_reports_nothing(
    host: InlineHost,
) -> None:
    @host.app.job(isolation="inline")
    async def wait() -> None:
        await asyncio.Event().wait()

    run = host.begin(wait)
    run.stop(StopReason.CANCEL)
    run.stop(StopReason.LOST)
    assert (await host.wait_for_end(run)).verdict is None


async def test_a_handler_that_finishes_despite_a_stop_has_succeeded(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def finish(ctx: Context) -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ctx.cancelled
        return False

    run = host.begin(finish)
    run.stop(StopReason.CANCEL)
    report = await host.wait_for_end(run)
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.result) == (Outcome.SUCCEEDED, True)


async def test_a_handler_that_ignores_a_stop_is_abandoned_after_its_grace_period(
    host: InlineHost,
) -> None:
    is_over = asyncio.Event()

    @host.app.job(isolation="inline", grace=0.01)
    async def refuse() -> None:
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue

    run = host.begin(refuse)
    run.stop(StopReason.TIMEOUT)
    assert (await host.wait_for_end(run)).verdict is None
    is_over.set()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("bad")])
async def test_any_exception_of_a_handler_fails_only_its_own_job(
    host: InlineHost, error: BaseException
) -> None:
    @host.app.job(isolation="inline")
    async def fail() -> None:
        raise error

    assert host.outcome(fail) is Outcome.FAILED


async def test_an_invalid_payload_is_a_final_failure(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def double(number: int) -> int:
        return number * 2

    job_id = host.start(double, number="many")
    assert isinstance(job_id, UUID)
    verdict = host.reports[job_id].verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.final) == (Outcome.FAILED, True)


async def test_start_hooks_run_before_the_handler_and_may_fail(
    host: InlineHost, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    @host.app.job(isolation="inline")
    async def work() -> None:
        order.append("work")

    @work.on_start
    def note_sync(ctx: Context) -> None:
        order.append(f"sync {ctx.attempt}")

    @work.on_start
    async def fail(ctx: Context) -> None:
        raise ValueError(ctx.job_id)

    @host.app.on_start
    async def note_async(ctx: Context) -> None:
        order.append(f"async {ctx.definition}")

    with caplog.at_level(logging.ERROR):
        assert host.outcome(work) is Outcome.SUCCEEDED
    assert order == ["sync 1", "async work", "work"]
    assert "fail" in caplog.text


async def test_jobs_enqueued_by_a_handler_belong_to_its_tenant(host: InlineHost) -> None:
    seen: list[Any] = []

    @host.app.job(isolation="inline")
    async def look(ctx: Context) -> None:
        seen.append((choose_tenant(None, lambda: None), ctx.tenant_id))

    host.start(look)
    host.start(look)
    assert all(ambient == own for ambient, own in seen)
    assert len(set(seen)) == 2
    with pytest.raises(TenantRequired):
        choose_tenant(None, lambda: None)


async def test_values_that_json_cannot_hold_are_replaced_by_text(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def say(ctx: Context) -> None:
        ctx.log.info("counted", n=2**80)
        ctx.progress(2**80)

    assert host.outcome(say) is Outcome.SUCCEEDED
    assert host.notes == [
        ("log", {"n": str(2**80), "level": "info", "message": "counted"}),
        ("progress", {"done": str(2**80)}),
    ]


async def test_log_lines_of_a_handler_name_its_job(host: InlineHost) -> None:
    written = io.StringIO()
    logs.configure(format="json", stream=written)
    try:

        @host.app.job(isolation="inline")
        async def talk() -> None:
            logging.getLogger("mine").info("hello")

        job_id = host.start(talk)
        logging.getLogger("mine").info("afterwards")
    finally:
        logs.unconfigure()
    of_the_job, of_nobody = map(json.loads, written.getvalue().splitlines())
    assert of_the_job["job_id"] == str(job_id)
    assert "job_id" not in of_nobody


async def test_notes_of_a_handler_reach_the_host(host: InlineHost) -> None:
    @host.app.job(isolation="inline")
    async def talk(ctx: Context) -> None:
        await ctx.progress(1, 2, "half")
        ctx.log.info("hello", to="ada")
        await ctx.emit("sent", {"number": 1})

    assert host.outcome(talk) is Outcome.SUCCEEDED
    assert host.notes == [
        ("progress", {"done": 1, "total": 2, "message": "half"}),
        ("log", {"to": "ada", "level": "info", "message": "hello"}),
        ("event", {"name": "sent", "data": {"number": 1}}),
    ]
