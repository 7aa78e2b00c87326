"""The worker: one asyncio process that claims jobs, has them run, and settles how they ended.

    claims ──ready──► starts ──► runners ──ended──► outcomes
       ▲                            │
       └───────── free slots ◄──────┘

These are loops that all go on at once: while a claim is on its way the jobs of the last one run,
and what ends gathers for the next settle. Upkeep extends the leases; the watch stops what could not
be extended in time. How a job is run, runners know.
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
from jobforge.artifacts.store_identity import StoreUse
from jobforge.artifacts.sweep import Sweep
from jobforge.db.loop import Loop
from jobforge.db.outage import Line, Outage
from jobforge.db.protocols import Engine
from jobforge.errors import ConfigError, JobForgeError
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk.app import JobForge, registration
from jobforge.sdk.definition import Definition
from jobforge.sdk.settings import Isolation
from jobforge.security.secrets import Secrets
from jobforge.types.jobs import ClaimedJob, WorkerCommand
from jobforge.worker.claim_buffer import Ready
from jobforge.worker.claimer import Claims
from jobforge.worker.heartbeat import Upkeep
from jobforge.worker.inline import Inline
from jobforge.worker.job_services import WorkerHost
from jobforge.worker.launcher import Starts, serve
from jobforge.worker.leases import Leases
from jobforge.worker.listener import Wakeups
from jobforge.worker.notes import Notes
from jobforge.worker.pacing import Turns
from jobforge.worker.result_uploads import Deposits
from jobforge.worker.runner import RELEASED, Host, Report, Runner, Stop
from jobforge.worker.settler import Outcomes
from jobforge.worker.slots import Slots
from jobforge.worker.step_writer import Steps

# As the engine has them.
_MOST_QUEUES = 100
_LONGEST_LEASE_S = 3600
_WATCH_S = 1.0
# What the end of a worker may take beyond its drain: for killed jobs to be gone, for a claim that
# is on its way, and for the last outcomes.
_KILL_S = 5.0
_FLUSH_S = 10.0

MakeRunner = Callable[[Host], Runner]
# The definitions that it serves besides those of the app, for a worker of this id.
MakeConnectors = Callable[[UUID], Sequence[Definition[..., Any]]]
_ONLY_INLINE: Mapping[Isolation, MakeRunner] = {"inline": Inline}


class Worker:
    """Runs the jobs of an app until it is told to stop.

    `queues` has the slots of each queue: how many of its jobs may run at once. `runners` make what
    runs the definitions of each isolation; others are not served. `definitions` confines the
    worker to some of the app's; `make_connectors` adds ours. It carries a `scheduler` along,
    and counts in `meters` what it does.
    """

    def __init__(  # noqa: PLR0913 - the settings of a worker
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
        self._moved = asyncio.Event()  # something has ended, or was settled

        outage = Outage()
        claim_line = Line(database.link(durable=False), outage)
        settle_line = Line(database.link(), outage)
        self._upkeep_line = Line(database.link(), outage)
        step_line = Line(database.link(), outage)
        self._lines = [claim_line, settle_line, step_line, self._upkeep_line]

        self._slots = Slots(queues)
        self._leases = Leases(lease_s)
        notes = Notes()
        self._deposits = Deposits(
            artifacts,
            self._leases,
            lease_s=lease_s,
            on_begin=self._beat_soon,
            on_end=self._deposited,
        )
        self._outcomes = Outcomes(
            self.worker_id,
            settle_line,
            leases=self._leases,
            notes=notes,
            deposits=self._deposits,
            on_settled=self._moved.set,
            meters=meters,
        )
        self._settling = Loop("outcomes", self._outcomes.step)
        steps = Steps(self.worker_id, step_line, self._leases)
        self._storing = Loop("steps", steps.step)
        # A server puts away by itself what is too large.
        own_store = None if database.keeps_operations else artifacts
        self.host = WorkerHost(
            self.worker_id,
            database,
            notes=notes,
            steps=steps,
            secrets=secrets or Secrets(),
            artifacts=artifacts,
            payloads=own_store,
            on_note=self._settling.ring,
            on_step=self._storing.ring,
        )

        self._runners = {isolation: make(self.host) for isolation, make in runners.items()}
        offered = app.definitions.values() if definitions is None else definitions
        self._connectors = make_connectors(self.worker_id) if make_connectors else []
        served = serve([*offered, *self._connectors], self._runners)
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

        self._ready = Ready(meters)
        self._starts = Starts(
            self._ready,
            served,
            self._leases,
            artifacts=artifacts,
            on_end=self._ended,
            on_ended=self._ended_at_once,
        )
        self._starting = Loop("starts", self._starts.step)
        self._claims = Claims(
            self.worker_id,
            claim_line,
            slots=self._slots,
            outcomes=self._outcomes,
            registration=self._register(),
            lease_s=lease_s,
            poll_s=poll_s,
            ready=self._ready,
            on_ready=self._starting.ring,
            meters=meters,
        )
        self._upkeep = Upkeep(
            self.worker_id,
            self._upkeep_line,
            leases=self._leases,
            lease_s=lease_s,
            heartbeat_s=heartbeat_s,
            registration=self._register(),
            has_operations=not database.keeps_operations,
            has_partitions=scheduler is None,
            obey=self._obey,
            meters=meters,
        )
        self._claiming = Loop("claims", self._claims.step)
        self._turns = Turns(self._slots, self._claiming.ring, self._settling.ring)
        self._keeping = Loop("upkeep", self._upkeep.step)
        self._watching = Loop("watch", self._watch)
        self._sweeping = _store_loops(database, own_store)
        self._listening = Loop(
            "wakeups",
            Wakeups(
                database, self.worker_id, queues, on_job=self._expect, on_news=self._keeping.ring
            ).step,
        )
        if meters is not None:
            meters.readings |= {
                "running": lambda: len(self._leases),
                "slots": lambda: self._slots.total,
                "unsettled": lambda: len(self._outcomes),
                "reconnects": lambda: outage.ended,
                "disconnected": lambda: outage.is_on,
            }

    async def run(self) -> None:
        """Until it is stopped, from here or from afar, and everything is settled or handed back."""
        if self._stopping.is_set():
            return
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                claiming = group.create_task(self._claiming.run())
                listening = group.create_task(self._listen())
                loops = (
                    *(self._starting, self._settling, self._storing),
                    *(self._keeping, self._watching),
                    *self._sweeping,
                )
                tasks = [group.create_task(loop.run()) for loop in loops]
                if self._scheduler is not None:
                    tasks.append(group.create_task(self._scheduler.run()))
                await self._stopping.wait()
                if self._scheduler is not None:
                    self._scheduler.stop()
                await self._end_claims(claiming)
                await self._end_runs()
                await self._wait(lambda: not self._outcomes, _FLUSH_S)
                self._outcomes.tell_unsettled()
                listening.cancel()
                for loop in loops:
                    loop.stop()
                await _end(tasks)
        finally:
            await self._close()

    def stop(self) -> None:
        """Claims no more, and ends when the running jobs have. The second call hands them back."""
        if self._stopping.is_set():
            self._killing.set()
            self._moved.set()
        self._stopping.set()

    @property
    def is_draining(self) -> bool:
        return self._stopping.is_set()

    async def _open(self) -> None:
        own = map(registration, self._connectors)
        made_known = (*self._app.registrations(), *own, self._app.declaration())
        for call in (*made_known, calls.ensure_partitions()):
            await self._upkeep_line.run(call)
        for runner in self._runners.values():
            await runner.open()
        levels = (runner.level for runner in self._runners.values())
        register = self._register(isolation=next(filter(None, levels), None))
        self._upkeep.registration = self._claims.registration = register
        await self._upkeep_line.run(register)
        self.is_running = True
        logs.emit("worker.started", worker_id=self.worker_id, slots=self._slots.total)

    async def _close(self) -> None:
        self._deposits.close()
        for runner in self._runners.values():
            await runner.close()
        if self.is_running:
            await self._sign_off()
        for line in self._lines:
            await line.close()

    async def _sign_off(self) -> None:
        self.is_running = False
        with contextlib.suppress(JobForgeError, TimeoutError):  # then it is seen as stale
            async with asyncio.timeout(_KILL_S):
                await self._upkeep_line.run(calls.unregister_worker(self.worker_id))
        logs.emit(
            "worker.stopped",
            worker_id=self.worker_id,
            claimed=self._claims.claimed,
            settled=self._outcomes.settled,
            unsettled=len(self._outcomes),
        )

    async def _listen(self) -> None:
        if self._database.can_listen:
            await self._listening.run()

    def _expect(self, queue: str) -> None:
        self._slots.expect(queue)
        self._claiming.ring()

    def _ended(self, job: ClaimedJob, report: Report) -> None:
        duration_s = self._record(job, report)
        self._turns.end(job.queue, ran_s=duration_s)
        self._moved.set()

    def _ended_at_once(self, ended: Sequence[tuple[ClaimedJob, Report]]) -> None:
        """As `_ended`, for jobs that never held a lease of their own."""
        if not ended:
            return
        for job, report in ended:
            self._outcomes.add(job, report)
        self._turns.end(*(job.queue for job, _ in ended))
        self._moved.set()

    def _deposited(self, job: ClaimedJob, report: Report) -> None:
        """As `_ended`, for one whose slot was free already."""
        self._record(job, report)
        self._settling.ring()
        self._moved.set()

    def _record(self, job: ClaimedJob, report: Report) -> float:
        """Answers how long it ran."""
        duration_s = self._leases.drop(job)
        if report.verdict is None:
            self._tell_lost(job)
        else:
            self._outcomes.add(job, report, duration_s)
        return duration_s

    def _beat_soon(self) -> None:
        self._keeping.ring()

    def _tell_lost(self, job: ClaimedJob) -> None:
        if self._meters is not None:
            self._meters.lost_leases += 1
        logs.emit("job.lost", level="warning", **logs.fields_of(job))

    async def _watch(self, loop: Loop) -> None:
        self._leases.stop_overdue()
        await loop.rest(min(_WATCH_S, self._leases.next_deadline_s()))

    def _obey(self, command: WorkerCommand) -> None:
        if command is WorkerCommand.DRAIN and not self._stopping.is_set():
            self.stop()
        elif command is WorkerCommand.STOP:
            self.stop()
            self.stop()

    async def _end_claims(self, claiming: asyncio.Task[None]) -> None:
        self._claiming.stop()
        self._starts.end()
        # Its answer may be on its way, and those jobs are to be handed back.
        await _end([claiming])

    async def _end_runs(self) -> None:
        await self._wait(lambda: self._is_idle or self._killing.is_set(), self._drain_s)
        self._leases.stop_all(Stop.SHUTDOWN)
        await self._wait(lambda: self._is_idle, _KILL_S)
        for run in self._leases:
            self._ended(run.job, RELEASED)

    @property
    def _is_idle(self) -> bool:
        return not self._leases and not self._ready

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        """Until it holds, or the time is up; it is looked at whenever something has moved."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return


def _store_loops(database: Engine, store: Artifacts | None) -> list[Loop]:
    """Those that look after the artifact store, where the worker has a database."""
    if store is None:
        return []
    using = StoreUse("worker", store, database.run)
    sweep = Sweep(database.run, store)
    return [Loop("artifact store", using.step), Loop("sweep", sweep.step)]


def _check(queues: Mapping[str, int], lease_s: float, heartbeat_s: float) -> None:
    """Raises ConfigError for what the engine would refuse with each claim."""
    if not queues or min(queues.values()) < 1:
        raise ConfigError("a worker needs a queue, and each queue a slot", field="queues")
    if len(queues) > _MOST_QUEUES:
        raise ConfigError(f"a worker serves at most {_MOST_QUEUES} queues", field="queues")
    if not 1 <= lease_s <= _LONGEST_LEASE_S:
        raise ConfigError(f"a lease lasts 1 to {_LONGEST_LEASE_S} seconds", field="lease_s")
    if heartbeat_s * 2 > lease_s:
        raise ConfigError("a lease must last two heartbeats", field="heartbeat_s")


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """They were told to stop; whoever waits for an answer that does not come is cut short."""
    await asyncio.wait(tasks, timeout=_KILL_S)
    for task in tasks:
        task.cancel()
