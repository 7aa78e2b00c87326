"""Start claimed jobs in time slices: pass each job to the runner of its definition."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jobforge.artifacts import Artifacts
from jobforge.db.background_loop import BackgroundLoop
from jobforge.errors import ConfigError
from jobforge.observability import logs, tracing
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import Isolation
from jobforge.sdk.verdict import verdict_from_error
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.clock import now
from jobforge.worker.payload_downloads import PayloadDownload, needs_download
from jobforge.worker.runner_protocol import RELEASED, Report, Run, Runner, StopReason
from jobforge.worker.worker_state import WorkerState

if TYPE_CHECKING:
    from jobforge.observability.tracing.attempt_spans import AttemptSpans

# Jobs are started for this long; then the event loop runs what else is due.
_TIME_SLICE_S = 0.01

ServedDefinitions = Mapping[tuple[str, int], tuple[Definition[..., Any], Runner]]


def map_served_definitions(
    definitions: Iterable[Definition[..., Any]], runners: Mapping[Isolation, Runner]
) -> ServedDefinitions:
    """Return the definition and runner of each key and version.

    Definitions without a runner are left out. Raises ConfigError if none is left.
    """
    served = {}
    for definition in definitions:
        runner = runners.get(definition.settings.isolation)
        if runner is None:
            continue
        for name in definition.served_versions:
            key, _, version = name.rpartition("@")
            served[key, int(version)] = definition, runner
    if not served:
        raise ConfigError("The app has no definitions that this worker can run")
    return served


class Launcher:
    def __init__(
        self, state: WorkerState, served: ServedDefinitions, artifacts: Artifacts | None
    ) -> None:
        self._state = state
        self._buffer = state.claimed
        self.served = served
        self._artifacts = artifacts
        self._is_stopped = False
        self._logs_starts = False
        self._attempts = tracing.create_attempt_spans()

    def release_remaining(self) -> None:
        """From now on release jobs to the queue instead of starting them."""
        self._is_stopped = True

    async def step(self, loop: BackgroundLoop) -> None:
        if not self._buffer:
            await loop.wait_for_wake()
            return
        await self._buffer.read_next()
        jobs = self._buffer.jobs
        slice_ends = now() + _TIME_SLICE_S
        self._logs_starts = logs.is_enabled("debug")
        attempts = self._attempts
        ended: list[tuple[ClaimedJob, Report]] = []
        while jobs:
            job, deadline = jobs.popleft()
            moment = now()
            report: Report | None = RELEASED
            served = self.served.get((job.definition, job.version))
            if served is not None and moment < deadline and not self._is_stopped:
                if attempts is None:
                    report = self._start(job, *served, deadline)
                else:
                    job, report = self._start_traced(attempts, job, *served, deadline)
            if report is not None:
                ended.append((job, report))
            if moment >= slice_ends:
                break
        if attempts is not None:
            attempts.leave()
        self._state.end_attempts(ended)
        await asyncio.sleep(0)

    def _start_traced(
        self,
        attempts: "AttemptSpans",
        job: ClaimedJob,
        definition: Definition[..., Any],
        runner: Runner,
        deadline: float,
    ) -> tuple[ClaimedJob, Report | None]:
        """Start the job within its trace span; return the job with its traceparent, if any."""
        job = attempts.begin(job)
        report = self._start(job, definition, runner, deadline)
        if report is None:
            attempts.keep(job)
        else:
            attempts.end(report.verdict)
        return job, report

    def _start(
        self, job: ClaimedJob, definition: Definition[..., Any], runner: Runner, deadline: float
    ) -> Report | None:
        """Start the job; return a report if it has ended already."""
        if self._logs_starts:
            logs.emit("job.started", level="debug", **logs.job_fields(job))
        run: Run | Report
        try:
            if needs_download(job, definition):
                run = PayloadDownload(self._artifacts, job, definition, runner, self._end_run)
            else:
                run = runner.start(job, definition, self._end_run)
        except Exception as error:  # noqa: BLE001 - any error is the outcome of the attempt
            return Report(verdict_from_error(error, definition.settings))
        if isinstance(run, Report):
            return run
        timeout_s = job.timeout_s or definition.settings.timeout_s
        loop = asyncio.get_running_loop()
        timeout = loop.call_later(timeout_s, run.stop, StopReason.TIMEOUT)
        self._state.leases.hold(run, deadline, timeout)
        return None

    def _end_run(self, job: ClaimedJob, report: Report) -> None:
        """End a job that was running: its runner calls this."""
        if self._attempts is not None:
            self._attempts.end_kept(job, report.verdict)
        self._state.end_attempts([(job, report)])
