"""The worker: one asyncio process that claims jobs, runs them, and settles their outcomes.

    open: register ──► claim, run and settle, until stopped ──► drain ──► close: unregister

worker_state.py describes what its parts share, worker_parts.py builds them.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from jobforge import calls
from jobforge.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.db.protocols import Engine
from jobforge.errors import JobForgeError
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk.app import JobForge, build_registration_call
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import Isolation
from jobforge.security.secret_lookup import Secrets
from jobforge.worker.inline import InlineRunner
from jobforge.worker.runner_protocol import RELEASED, StopReason
from jobforge.worker.worker_parts import MakeRunner, build_parts
from jobforge.worker.worker_state import WorkerSettings, WorkerState

# Shutdown timeouts after the drain: _KILL_S for killed jobs to exit and for a claim in flight,
# _FLUSH_S to settle the last outcomes.
_KILL_S = 5.0
_FLUSH_S = 10.0

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
        settings = WorkerSettings(queues, lease_s, heartbeat_s, poll_s, drain_s, build)
        self._state = WorkerState(settings, meters)
        self.worker_id = self._state.worker_id
        self._app = app
        self._scheduler = scheduler
        self._connectors = make_connectors(self.worker_id) if make_connectors else []
        offered = app.definitions.values() if definitions is None else definitions
        self._parts = build_parts(
            *(self._state, database, [*offered, *self._connectors], runners),
            secrets=secrets or Secrets(),
            artifacts=artifacts,
            has_scheduler=scheduler is not None,
        )
        self.job_services = self._parts.services
        self.is_running = False
        self._has_started = False

    async def run(self) -> None:
        """Run until the worker is stopped, locally or by a command in a heartbeat response.

        On return every job is settled, released to the queue, or left to the reaper.
        """
        if self._state.stopping.is_set():
            return
        parts = self._parts
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                claim_task = group.create_task(parts.claim_loop.run())
                listening = [group.create_task(loop.run()) for loop in parts.listen_loops]
                tasks = [group.create_task(loop.run()) for loop in parts.loops]
                if self._scheduler is not None:
                    tasks.append(group.create_task(self._scheduler.run()))
                await self._state.stopping.wait()
                if self._scheduler is not None:
                    self._scheduler.stop()
                await self._stop_claiming(claim_task)
                await self._drain_runs()
                await self._wait(lambda: not parts.settler, _FLUSH_S)
                parts.settler.log_unsettled()
                for task in listening:
                    task.cancel()
                for loop in parts.loops:
                    loop.stop()
                await _join_or_cancel(tasks)
        finally:
            await self._close()

    def stop(self) -> None:
        """Stop claiming and drain the running jobs; a second call releases them to the queue."""
        self._state.stop()

    @property
    def is_draining(self) -> bool:
        return self._state.stopping.is_set()

    async def _open(self) -> None:
        link, runners = self._parts.link, self._parts.runners.values()
        for call in (
            *self._app.registrations(),
            *map(build_registration_call, self._connectors),
            self._app.build_trigger_declaration(),
            calls.ensure_partitions(),
        ):
            await link.run(call)
        for runner in runners:
            await runner.open()
        await self._app.lifecycle.run_worker_start()
        self._has_started = True
        level = next(filter(None, (runner.level for runner in runners)), None)
        self._state.registration = self._build_registration(level)
        await link.run(self._state.registration)
        self.is_running = True
        logs.emit("worker.started", worker_id=self.worker_id, slots=self._state.slots.total)

    def _build_registration(self, isolation_level: str | None) -> Call[None]:
        settings = self._state.settings
        return calls.register_worker(
            self.worker_id,
            list(settings.queues),
            slots=self._state.slots.total,
            definitions=[f"{key}@{version}" for key, version in self._parts.launcher.served],
            host=socket.gethostname(),
            pid=os.getpid(),
            build=settings.build,
            isolation=isolation_level,
            lease_s=settings.lease_s,
        )

    async def _close(self) -> None:
        self._parts.uploads.close()
        for runner in self._parts.runners.values():
            await runner.close()
        if self.is_running:
            await self._unregister()
        if self._has_started:
            await self._app.lifecycle.run_worker_stop()
        for link in self._parts.links:
            await link.close()

    async def _unregister(self) -> None:
        self.is_running = False
        # If this fails, the worker is listed as stale.
        with contextlib.suppress(JobForgeError, TimeoutError):
            async with asyncio.timeout(_KILL_S):
                await self._parts.link.run(calls.unregister_worker(self.worker_id))
        logs.emit(
            "worker.stopped",
            worker_id=self.worker_id,
            claimed=self._parts.claimer.claimed,
            settled=self._parts.settler.settled,
            unsettled=len(self._parts.settler),
        )

    async def _stop_claiming(self, claim_task: asyncio.Task[None]) -> None:
        self._parts.claim_loop.stop()
        self._parts.launcher.release_remaining()
        # A claim may be in flight: wait for its response, so that its jobs can be released.
        await _join_or_cancel([claim_task])

    async def _drain_runs(self) -> None:
        state = self._state
        is_killing = state.killing.is_set
        await self._wait(lambda: self._is_idle or is_killing(), state.settings.drain_s)
        state.leases.stop_all(StopReason.SHUTDOWN)
        await self._wait(lambda: self._is_idle, _KILL_S)
        state.end_attempts([(run.job, RELEASED) for run in state.leases])

    @property
    def _is_idle(self) -> bool:
        return not self._state.leases and not self._state.claimed

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until the condition is true or the time is up; check it after each state change."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._state.changed.clear()
                    await self._state.changed.wait()
        except TimeoutError:
            return


async def _join_or_cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for tasks that were told to stop; cancel those that still run after `_KILL_S`."""
    await asyncio.wait(tasks, timeout=_KILL_S)
    for task in tasks:
        task.cancel()
