"""From claimed to running: hands each job to what runs its definition, a little at a time."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from jobforge.artifacts import Artifacts
from jobforge.db.loop import Loop
from jobforge.errors import ConfigError
from jobforge.observability import logs, tracing
from jobforge.sdk.definition import Definition
from jobforge.sdk.settings import Isolation
from jobforge.sdk.verdict import raised
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.claim_buffer import Ready
from jobforge.worker.clock import now
from jobforge.worker.leases import Leases
from jobforge.worker.payload_downloads import Fetch, needs_fetch
from jobforge.worker.runner import RELEASED, OnEnd, Report, Run, Runner, Stop

if TYPE_CHECKING:
    from jobforge.observability.tracing.attempt_spans import Attempts

# For so long jobs are started in one go; then whatever else is due gets its turn.
_TURN_S = 0.01

OnEnded = Callable[[Sequence[tuple[ClaimedJob, Report]]], None]
Served = Mapping[tuple[str, int], tuple[Definition[..., Any], Runner]]


def serve(
    definitions: Iterable[Definition[..., Any]], runners: Mapping[Isolation, Runner]
) -> Served:
    """What runs the jobs of each key and version; without a runner a definition is left out."""
    served = {}
    for definition in definitions:
        runner = runners.get(definition.settings.isolation)
        if runner is None:
            continue
        for name in definition.served:
            key, _, version = name.rpartition("@")
            served[key, int(version)] = definition, runner
    if not served:
        raise ConfigError("the app has no definitions that this worker can run")
    return served


class Starts:
    def __init__(  # noqa: PLR0913 - the parts that it works on
        self,
        ready: Ready,
        served: Served,
        leases: Leases,
        *,
        artifacts: Artifacts | None,
        on_end: OnEnd,
        on_ended: OnEnded,
    ) -> None:
        self._ready = ready
        self._served = served
        self._leases = leases
        self._artifacts = artifacts
        self._on_end = on_end
        self._on_ended = on_ended
        self._is_over = False
        self._is_told = False
        self._attempts = tracing.find_attempts()
        # Nobody is given the job while one of these runs.
        self._light = {
            definition
            for definition, _ in served.values()
            if definition.settings.isolation == "inline" and not definition.needs_context
        }
        if self._attempts is not None:
            self._on_end = partial(_end_traced, self._attempts, on_end)

    def end(self) -> None:
        """From now on jobs are handed back instead."""
        self._is_over = True

    async def step(self, loop: Loop) -> None:
        if not self._ready:
            await loop.rest()
            return
        await self._ready.read()
        jobs = self._ready.jobs
        turn_ends = now() + _TURN_S
        self._is_told = logs.is_enabled("debug")
        attempts = self._attempts
        ended: list[tuple[ClaimedJob, Report]] = []
        while jobs:
            job, deadline = jobs.popleft()
            moment = now()
            report: Report | None = RELEASED
            served = self._served.get((job.definition, job.version))
            if served is not None and moment < deadline and not self._is_over:
                if attempts is None:
                    report = self._start(job, *served, deadline)
                else:
                    job, report = self._start_traced(attempts, job, *served, deadline)
            if report is not None:
                ended.append((job, report))
            if moment >= turn_ends:
                break
        if attempts is not None:
            attempts.leave()
        self._on_ended(ended)
        await asyncio.sleep(0)

    def _start_traced(
        self,
        attempts: "Attempts",
        job: ClaimedJob,
        definition: Definition[..., Any],
        runner: Runner,
        deadline: float,
    ) -> tuple[ClaimedJob, Report | None]:
        """As `_start`, and the job as others may speak of it."""
        is_light = definition in self._light and not self._is_told
        job = attempts.begin(job, is_light=is_light and not needs_fetch(job, definition))
        report = self._start(job, definition, runner, deadline)
        if report is not None:
            return attempts.end(job, report.verdict), report
        attempts.keep(job)
        return job, None

    def _start(
        self, job: ClaimedJob, definition: Definition[..., Any], runner: Runner, deadline: float
    ) -> Report | None:
        """A report if it has ended already."""
        if self._is_told:
            logs.emit("job.started", level="debug", **logs.fields_of(job))
        run: Run | Report
        try:
            if needs_fetch(job, definition):
                run = Fetch(self._artifacts, job, definition, runner, self._on_end)
            else:
                run = runner.start(job, definition, self._on_end)
        except Exception as error:  # noqa: BLE001 - it could not be run: that is how it ended
            return Report(raised(error, definition.settings))
        if isinstance(run, Report):
            return run
        timeout_s = job.timeout_s or definition.settings.timeout_s
        loop = asyncio.get_running_loop()
        timeout = loop.call_later(timeout_s, run.stop, Stop.TIMEOUT)
        self._leases.hold(run, deadline, timeout)
        return None


def _end_traced(attempts: "Attempts", on_end: OnEnd, job: ClaimedJob, report: Report) -> None:
    on_end(attempts.end_kept(job, report.verdict), report)
