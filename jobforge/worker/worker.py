"""The worker: one asyncio process that claims jobs, runs them, and settles their outcomes.

    Claimer ──ClaimBuffer──► Launcher ──► runners ──► Settler
       ▲                                     │
       └───────────── free slots ◄───────────┘

The loops run concurrently: while a claim is in flight, jobs of the previous claim run, and finished
jobs collect for the next settle batch. The heartbeat loop renews the leases; the lease watch loop
stops jobs whose lease was not renewed in time. The runners (runner_protocol.py) run the jobs.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from jobforge import calls
from jobforge.artifacts import Artifacts
from jobforge.artifacts.store_identity import StoreRecorder
from jobforge.artifacts.sweep import ArtifactSweeper
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.db.protocols import Engine
from jobforge.errors import ConfigError, JobForgeError
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk.app import JobForge, build_registration_call
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import Isolation
from jobforge.security.secret_lookup import Secrets
from jobforge.types.jobs import ClaimedJob, WorkerCommand
from jobforge.worker.claim_buffer import ClaimBuffer
from jobforge.worker.claim_coalescing import Pacer
from jobforge.worker.claimer import Claimer
from jobforge.worker.heartbeat import HeartbeatLoop
from jobforge.worker.inline import InlineRunner
from jobforge.worker.job_services import WorkerJobServices
from jobforge.worker.launcher import Launcher, map_served_definitions
from jobforge.worker.leases import LeaseTable
from jobforge.worker.listener import JobListener
from jobforge.worker.notes import NoteBuffer
from jobforge.worker.result_uploads import ResultUploads
from jobforge.worker.runner_protocol import RELEASED, JobServices, Report, Runner, StopReason
from jobforge.worker.settler import Settler
from jobforge.worker.slots import Slots
from jobforge.worker.step_writer import StepWriter

# The limits that the engine enforces.
_MAX_QUEUES = 100
_MAX_LEASE_S = 3600
_WATCH_S = 1.0
# Shutdown timeouts after the drain: _KILL_S for killed jobs to exit and for a claim in flight,
# _FLUSH_S to settle the last outcomes.
_KILL_S = 5.0
_FLUSH_S = 10.0

MakeRunner = Callable[[JobServices], Runner]
# Returns the connector definitions that the worker with this ID serves in addition to the app's.
MakeConnectors = Callable[[UUID], Sequence[Definition[..., Any]]]
_ONLY_INLINE: Mapping[Isolation, MakeRunner] = {"inline": InlineRunner}


class Worker:
    """A worker that runs an app's jobs until it is stopped.

    `queues` maps each queue to its slots, the number of its jobs that may run concurrently.
    `runners` maps each isolation setting to a runner factory; definitions with another isolation
    are not served. `definitions` restricts the worker to these definitions of the app;
    `make_connectors` adds built-in connectors. The worker also runs the `scheduler` if given.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting of a worker
        self,
        app: JobForge,
        database: Engine,
        *,
        queues: Mapping[str, int],
        runners: Mapping[Isolation, MakeRunner] = _ONLY_INLINE,
        definitions: Iterable[Definition[..., Any]] | None = None,
        secrets: Secrets | None = None,
        lease_s: float = 30,
        heartbeat_s: float = 10,
        poll_s: float = 1,
        drain_s: float = 30,
        build: str | None = None,
        artifacts: Artifacts | None = None,
        make_connectors: MakeConnectors | None = None,
        scheduler: Scheduler | None = None,
        meters: Meters | None = None,
    ) -> None:
        _check(queues, lease_s, heartbeat_s)
        self.worker_id: UUID = uuid4()
        self._app = app
        self._database = database
        self._drain_s = drain_s
        self._scheduler = scheduler
        self._meters = meters
        self.is_running = False
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()
        self._state_changed = asyncio.Event()  # set when a job ends or outcomes are settled

        outage = Outage()
        claim_link = MonitoredLink(database.create_link(durable=False), outage)
        settle_link = MonitoredLink(database.create_link(), outage)
        self._heartbeat_link = MonitoredLink(database.create_link(), outage)
        step_link = MonitoredLink(database.create_link(), outage)
        self._links = [claim_link, settle_link, step_link, self._heartbeat_link]

        self._slots = Slots(queues)
        self._leases = LeaseTable(lease_s)
        notes = NoteBuffer()
        self._result_uploads = ResultUploads(
            artifacts,
            self._leases,
            lease_s=lease_s,
            on_begin=self._request_heartbeat,
            on_end=self._on_upload_end,
        )
        self._settler = Settler(
            self.worker_id,
            settle_link,
            leases=self._leases,
            notes=notes,
            uploads=self._result_uploads,
            on_settled=self._state_changed.set,
            meters=meters,
        )
        self._settle_loop = BackgroundLoop("outcomes", self._settler.step)
        steps = StepWriter(self.worker_id, step_link, self._leases)
        self._step_loop = BackgroundLoop("steps", steps.step)
        # A JobForge server stores large payloads itself.
        own_store = None if database.runs_bulk_operations else artifacts
        self.job_services = WorkerJobServices(
            self.worker_id,
            database,
            notes=notes,
            steps=steps,
            secrets=secrets or Secrets(),
            artifacts=artifacts,
            payloads=own_store,
            on_note=self._settle_loop.wake,
            on_step=self._step_loop.wake,
        )

        self._runners = {isolation: make(self.job_services) for isolation, make in runners.items()}
        offered = app.definitions.values() if definitions is None else definitions
        self._connectors = make_connectors(self.worker_id) if make_connectors else []
        served = map_served_definitions([*offered, *self._connectors], self._runners)
        names = [f"{key}@{version}" for key, version in served]
        self._register = partial(
            calls.register_worker,
            self.worker_id,
            list(queues),
            slots=sum(queues.values()),
            definitions=names,
            host=socket.gethostname(),
            pid=os.getpid(),
            build=build,
        )

        self._claim_buffer = ClaimBuffer(meters)
        self._launcher = Launcher(
            self._claim_buffer,
            served,
            self._leases,
            artifacts=artifacts,
            on_end=self._on_run_end,
            on_immediate_ends=self._on_immediate_ends,
        )
        self._launch_loop = BackgroundLoop("starts", self._launcher.step)
        self._claimer = Claimer(
            self.worker_id,
            claim_link,
            slots=self._slots,
            settler=self._settler,
            registration=self._register(),
            lease_s=lease_s,
            poll_s=poll_s,
            buffer=self._claim_buffer,
            on_claimed=self._launch_loop.wake,
            meters=meters,
        )
        self._heartbeat = HeartbeatLoop(
            self.worker_id,
            self._heartbeat_link,
            leases=self._leases,
            lease_s=lease_s,
            heartbeat_s=heartbeat_s,
            registration=self._register(),
            has_operations=not database.runs_bulk_operations,
            has_partitions=scheduler is None,
            on_command=self._handle_command,
            meters=meters,
        )
        self._claim_loop = BackgroundLoop("claims", self._claimer.step)
        self._pacer = Pacer(self._slots, self._claim_loop.wake, self._settle_loop.wake)
        self._heartbeat_loop = BackgroundLoop("heartbeat", self._heartbeat.step)
        self._lease_watch_loop = BackgroundLoop("watch", self._watch)
        self._store_loops = _store_loops(database, own_store)
        self._listen_loop = BackgroundLoop(
            "wakeups",
            JobListener(
                database,
                self.worker_id,
                queues,
                on_job=self._on_job_notification,
                on_worker_notification=self._heartbeat_loop.wake,
            ).step,
        )
        if meters is not None:
            meters.gauges |= {
                "running": lambda: len(self._leases),
                "slots": lambda: self._slots.total,
                "unsettled": lambda: len(self._settler),
                "reconnects": lambda: outage.ended_count,
                "disconnected": lambda: outage.is_active,
            }

    async def run(self) -> None:
        """Run until the worker is stopped, locally or by a command in a heartbeat response.

        On return every job is settled, released to the queue, or left to the reaper.
        """
        if self._stopping.is_set():
            return
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                claim_task = group.create_task(self._claim_loop.run())
                listening = group.create_task(self._listen())
                loops = (
                    *(self._launch_loop, self._settle_loop, self._step_loop),
                    *(self._heartbeat_loop, self._lease_watch_loop),
                    *self._store_loops,
                )
                tasks = [group.create_task(loop.run()) for loop in loops]
                if self._scheduler is not None:
                    tasks.append(group.create_task(self._scheduler.run()))
                await self._stopping.wait()
                if self._scheduler is not None:
                    self._scheduler.stop()
                await self._stop_claiming(claim_task)
                await self._drain_runs()
                await self._wait(lambda: not self._settler, _FLUSH_S)
                self._settler.log_unsettled()
                listening.cancel()
                for loop in loops:
                    loop.stop()
                await _join_or_cancel(tasks)
        finally:
            await self._close()

    def stop(self) -> None:
        """Stop claiming and drain the running jobs; a second call releases them to the queue."""
        if self._stopping.is_set():
            self._killing.set()
            self._state_changed.set()
        self._stopping.set()

    @property
    def is_draining(self) -> bool:
        return self._stopping.is_set()

    async def _open(self) -> None:
        connector_registrations = map(build_registration_call, self._connectors)
        registrations = (
            *self._app.registrations(),
            *connector_registrations,
            self._app.build_schedule_declaration(),
        )
        for call in (*registrations, calls.ensure_partitions()):
            await self._heartbeat_link.run(call)
        for runner in self._runners.values():
            await runner.open()
        levels = (runner.level for runner in self._runners.values())
        register = self._register(isolation=next(filter(None, levels), None))
        self._heartbeat.registration = self._claimer.registration = register
        await self._heartbeat_link.run(register)
        self.is_running = True
        logs.emit("worker.started", worker_id=self.worker_id, slots=self._slots.total)

    async def _close(self) -> None:
        self._result_uploads.close()
        for runner in self._runners.values():
            await runner.close()
        if self.is_running:
            await self._unregister()
        for link in self._links:
            await link.close()

    async def _unregister(self) -> None:
        self.is_running = False
        # If this fails, the worker is listed as stale.
        with contextlib.suppress(JobForgeError, TimeoutError):
            async with asyncio.timeout(_KILL_S):
                await self._heartbeat_link.run(calls.unregister_worker(self.worker_id))
        logs.emit(
            "worker.stopped",
            worker_id=self.worker_id,
            claimed=self._claimer.claimed,
            settled=self._settler.settled,
            unsettled=len(self._settler),
        )

    async def _listen(self) -> None:
        if self._database.can_listen:
            await self._listen_loop.run()

    def _on_job_notification(self, queue: str) -> None:
        self._slots.mark_has_jobs(queue)
        self._claim_loop.wake()

    def _on_run_end(self, job: ClaimedJob, report: Report) -> None:
        duration_s = self._record(job, report)
        self._pacer.record_ends(job.queue, ran_s=duration_s)
        self._state_changed.set()

    def _on_immediate_ends(self, ended: Sequence[tuple[ClaimedJob, Report]]) -> None:
        """Record jobs that ended while they were started, so were never in the lease table."""
        if not ended:
            return
        for job, report in ended:
            self._settler.add(job, report)
        self._pacer.record_ends(*(job.queue for job, _ in ended))
        self._state_changed.set()

    def _on_upload_end(self, job: ClaimedJob, report: Report) -> None:
        """Record a job whose result is uploaded; its slot was released when its handler ended."""
        self._record(job, report)
        self._settle_loop.wake()
        self._state_changed.set()

    def _record(self, job: ClaimedJob, report: Report) -> float:
        """Drop the lease, pass the report to the settler, and return the run time in seconds."""
        duration_s = self._leases.drop(job)
        if report.verdict is None:
            self._log_lost(job)
        else:
            self._settler.add(job, report, duration_s)
        return duration_s

    def _request_heartbeat(self) -> None:
        self._heartbeat_loop.wake()

    def _log_lost(self, job: ClaimedJob) -> None:
        if self._meters is not None:
            self._meters.lost_leases += 1
        logs.emit("job.lost", level="warning", **logs.job_fields(job))

    async def _watch(self, loop: BackgroundLoop) -> None:
        self._leases.stop_overdue()
        await loop.wait_for_wake(min(_WATCH_S, self._leases.next_deadline_s()))

    def _handle_command(self, command: WorkerCommand) -> None:
        if command is WorkerCommand.DRAIN and not self._stopping.is_set():
            self.stop()
        elif command is WorkerCommand.STOP:
            self.stop()
            self.stop()

    async def _stop_claiming(self, claim_task: asyncio.Task[None]) -> None:
        self._claim_loop.stop()
        self._launcher.release_remaining()
        # A claim may be in flight: wait for its response, so that its jobs can be released.
        await _join_or_cancel([claim_task])

    async def _drain_runs(self) -> None:
        await self._wait(lambda: self._is_idle or self._killing.is_set(), self._drain_s)
        self._leases.stop_all(StopReason.SHUTDOWN)
        await self._wait(lambda: self._is_idle, _KILL_S)
        for run in self._leases:
            self._on_run_end(run.job, RELEASED)

    @property
    def _is_idle(self) -> bool:
        return not self._leases and not self._claim_buffer

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until the condition is true or the time is up; check it after each state change."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._state_changed.clear()
                    await self._state_changed.wait()
        except TimeoutError:
            return


def _store_loops(database: Engine, store: Artifacts | None) -> list[BackgroundLoop]:
    """Return the artifact store's maintenance loops; none if the worker has no such store."""
    if store is None:
        return []
    recorder = StoreRecorder("worker", store, database.run)
    sweeper = ArtifactSweeper(database.run, store)
    return [BackgroundLoop("artifact store", recorder.step), BackgroundLoop("sweep", sweeper.step)]


def _check(queues: Mapping[str, int], lease_s: float, heartbeat_s: float) -> None:
    """Raise ConfigError for settings with which the engine would reject every claim."""
    if not queues or min(queues.values()) < 1:
        raise ConfigError("A worker requires a queue, and each queue a slot", field="queues")
    if len(queues) > _MAX_QUEUES:
        raise ConfigError(f"A worker can serve at most {_MAX_QUEUES} queues", field="queues")
    if not 1 <= lease_s <= _MAX_LEASE_S:
        raise ConfigError(f"lease_s must be between 1 and {_MAX_LEASE_S}", field="lease_s")
    if heartbeat_s * 2 > lease_s:
        raise ConfigError("lease_s must be at least twice heartbeat_s", field="heartbeat_s")


async def _join_or_cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for tasks that were told to stop; cancel those that still run after `_KILL_S`."""
    await asyncio.wait(tasks, timeout=_KILL_S)
    for task in tasks:
        task.cancel()
