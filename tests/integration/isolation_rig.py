"""Isolated jobs without a database: a runner, and a host that records what jobs send."""

import asyncio
import json
import os
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from uuid import UUID, uuid4

from jobforge.config.settings import JOB_PROCESSES
from jobforge.errors import Json, NotFound
from jobforge.redact import RedactionScope
from jobforge.sdk.loader import load_app
from jobforge.sdk.worker_requests import EnqueueJobs, WorkerRequest
from jobforge.types.jobs import (
    ClaimedJob,
    Enqueued,
    EnqueueStatus,
    JobRequest,
    Outcome,
    encode_timestamp,
)
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import Report, StopReason

APP = str(Path(__file__).with_name("isolated_app.py"))
COMMANDS = (
    *("say", "leave", "missing", "folder", "wait_long", "tell_environment", "hog", "greet"),
    *("sleep", "list_descriptors", "print_text"),
)

T = TypeVar("T")


class RecordingHost:
    """A host that has secrets and records the notes and requests of jobs."""

    def __init__(self) -> None:
        self.worker_id = uuid4()
        self.secrets = {"api": "s3cr3t-value"}
        self.notes: list[tuple[UUID, str, dict[str, Json]]] = []
        self.enqueued: list[JobRequest] = []
        self.tenants: list[UUID] = []
        self.requests: list[WorkerRequest[Any]] = []
        self._has_new_note = asyncio.Event()

    def note(self, job: ClaimedJob, kind: str, data: dict[str, Json], _: RedactionScope) -> None:
        self.notes.append((job.job_id, kind, data))
        self._has_new_note.set()

    async def request(self, job: ClaimedJob, request: WorkerRequest[T]) -> T:
        answer: Any = None
        if isinstance(request, EnqueueJobs):
            self.enqueued += request.jobs
            self.tenants.append(job.tenant_id)
            answer = [Enqueued(uuid4(), EnqueueStatus.CREATED) for _ in request.jobs]
        self.requests.append(request)
        return cast("T", answer)

    def secret(self, name: str) -> str:
        if name not in self.secrets:
            raise NotFound(f"Secret '{name}' not found", field="name")
        return self.secrets[name]

    def notes_of(self, job_id: UUID) -> list[tuple[str, dict[str, Json]]]:
        return [(kind, data) for job, kind, data in self.notes if job == job_id]

    async def wait_for_note(self, job_id: UUID) -> None:
        while not self.notes_of(job_id):
            self._has_new_note.clear()
            await self._has_new_note.wait()


class StartedJob:
    """A started job."""

    def __init__(self, rig: "IsolationRig", definition: str, payload: dict[str, Json]) -> None:
        self.job = build_job(definition, payload)
        self.mark = f"{self.job.job_id}.{self.job.lease}"
        self._rig = rig
        self._report: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        known = rig.app.definitions[definition]
        started = rig.runner.start(self.job, known, self._end)
        self.run = None if isinstance(started, Report) else started
        if isinstance(started, Report):
            self._end(self.job, started)

    def _end(self, job: ClaimedJob, report: Report) -> None:
        assert job is self.job
        self._report.set_result(report)

    @property
    def has_ended(self) -> bool:
        return self._report.done()

    async def report(self) -> Report:
        return await self._report

    async def wait_for_note(self) -> Self:
        """Wait until the job has sent a note, which shows that its handler runs."""
        speaking = asyncio.create_task(self._rig.host.wait_for_note(self.job.job_id))
        either: list[asyncio.Future[Any]] = [speaking, self._report]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        speaking.cancel()
        assert not self.has_ended, await self._report
        return self

    def stop(self, why: StopReason) -> None:
        assert self.run is not None
        self.run.stop(why)


class IsolationRig:
    """A runner with its own loop, for tests that are not coroutines. A module of
    tests shares one.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        target: str = APP,
        *,
        isolation_level: str = "process",
        job_processes: int = JOB_PROCESSES,
        job_environment: Sequence[str] = ("LET_THROUGH",),
    ) -> None:
        self.app = load_app(target)
        self._target = target
        self._isolation_level = isolation_level
        self._job_processes = job_processes
        self._job_environment = job_environment
        self.loop = asyncio.Runner()
        self.loop.run(self._create_runner(os.environ if environment is None else environment))
        if "greet" not in self.app.definitions:
            self.app.command("greet", **COMMAND_TABLES["greet"])
        self.run_in_loop(self.runner.open())

    async def _create_runner(self, environment: Mapping[str, str]) -> None:
        self.host = RecordingHost()
        self.runner = ProcessRunner(
            self._target,
            self.host,
            environment=environment,
            job_environment=self._job_environment,
            commands=COMMAND_TABLES,
            allowed_commands=COMMANDS,
            isolation_level=self._isolation_level,
            job_processes=self._job_processes,
        )

    def close(self) -> None:
        self.run_in_loop(self.runner.close())
        self.loop.close()

    def run_in_loop(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return self.loop.run(awaited())

    def start(self, definition: str, **payload: Json) -> StartedJob:
        return StartedJob(self, definition, payload)

    def run(self, definition: str, **payload: Json) -> Report:
        """Run one job to its end."""

        async def run() -> Report:
            return await self.start(definition, **payload).report()

        return self.run_in_loop(run())

    def result(self, definition: str, **payload: Json) -> Any:
        """Return the result of a job that succeeds."""
        report = self.run(definition, **payload)
        assert outcome(report) is Outcome.SUCCEEDED, report
        assert report.verdict is not None
        if report.large_result is not None:
            return json.loads(report.large_result)
        return report.verdict.result


COMMAND_TABLES: dict[str, dict[str, Any]] = {
    "greet": {"argv": ["printf", "hello %s", "{name}"], "timeout": 5}
}


def build_job(definition: str, payload: dict[str, Json]) -> ClaimedJob:
    now = datetime.now(UTC)
    return ClaimedJob(
        tenant_id=uuid4(),
        job_id=uuid4(),
        lease=1_789_000_000_000_000,
        definition=definition,
        version=1,
        queue="default",
        attempt=1,
        max_attempts=5,
        timeout_s=60,
        started=encode_timestamp(now),
        source="manual",
        correlation_id=None,
        traceparent=None,
        idempotency_key=None,
        tags=None,
        payload_json=json.dumps(payload),
    )


def outcome(report: Report) -> Outcome | None:
    return None if report.verdict is None else report.verdict.outcome


def error(report: Report) -> dict[str, Json]:
    assert report.verdict is not None
    assert report.verdict.error is not None
    return report.verdict.error


def is_alive(pid: int) -> bool:
    process = proc.read_table().get(pid)
    return process is not None and not process.is_zombie


def live_processes_of(mark: str) -> set[int]:
    """Return the live processes of a job."""
    return {process.pid for process in proc.living(proc.read_table())} & proc.find_marked([mark])
