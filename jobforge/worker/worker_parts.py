"""Build the parts of a worker, with their connections and loops.

The loops run concurrently: while a claim is in flight, jobs of the previous claim run, and finished
jobs collect for the next settle batch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobforge.artifacts import Artifacts
from jobforge.artifacts.store_identity import StoreRecorder
from jobforge.artifacts.sweep import ArtifactSweeper
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.db.protocols import Engine
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import Isolation
from jobforge.security.secret_lookup import Secrets
from jobforge.worker.claimer import Claimer
from jobforge.worker.heartbeat import HeartbeatLoop
from jobforge.worker.job_services import WorkerJobServices
from jobforge.worker.launcher import Launcher, map_served_definitions
from jobforge.worker.listener import JobListener
from jobforge.worker.result_uploads import ResultUploads
from jobforge.worker.runner_protocol import JobServices, Runner
from jobforge.worker.settler import Settler
from jobforge.worker.step_writer import StepWriter
from jobforge.worker.worker_state import WorkerState

_WATCH_S = 1.0

MakeRunner = Callable[[JobServices], Runner]


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The parts of a worker.

    The claim loop stops before the drain, `loops` after it, and listening is canceled.
    """

    services: WorkerJobServices
    runners: Mapping[Isolation, Runner]
    launcher: Launcher
    uploads: ResultUploads
    settler: Settler
    claimer: Claimer
    link: MonitoredLink  # of the heartbeat loop, for calls before it starts and after it ends
    links: Sequence[MonitoredLink]
    claim_loop: BackgroundLoop
    listen_loops: Sequence[BackgroundLoop]  # none over HTTP
    loops: Sequence[BackgroundLoop]


def build_parts(  # noqa: PLR0913 - one parameter for each object that a part needs
    state: WorkerState,
    database: Engine,
    definitions: Iterable[Definition[..., Any]],
    make_runners: Mapping[Isolation, MakeRunner],
    *,
    secrets: Secrets,
    artifacts: Artifacts | None,
    has_scheduler: bool,
) -> WorkerParts:
    outage = Outage()
    claim_link = MonitoredLink(database.create_link(durable=False), outage)
    settle_link, step_link, link = (MonitoredLink(database.create_link(), outage) for _ in range(3))
    # A JobForge server advances operations and maintains the artifact store itself.
    is_remote = database.runs_bulk_operations
    uploads = ResultUploads(state, artifacts)
    settler = Settler(state, settle_link, uploads)
    steps = StepWriter(state, step_link)
    services = WorkerJobServices(state, database, steps, secrets, artifacts)
    runners = {isolation: make(services) for isolation, make in make_runners.items()}
    launcher = Launcher(state, map_served_definitions(definitions, runners), artifacts)
    claimer = Claimer(state, claim_link, settler)
    heartbeat = HeartbeatLoop(
        state, link, settler, has_operations=not is_remote, has_partitions=not has_scheduler
    )
    _add_gauges(state, settler, outage)
    return WorkerParts(
        *(services, runners, launcher, uploads, settler, claimer),
        *(link, [claim_link, settle_link, step_link, link]),
        claim_loop=BackgroundLoop("claims", claimer.step, state.wake_claimer),
        listen_loops=[BackgroundLoop("wakeups", JobListener(state, database).step)]
        if database.can_listen
        else [],
        loops=[
            BackgroundLoop("starts", launcher.step, state.wake_launcher),
            BackgroundLoop("outcomes", settler.step, state.wake_settler),
            BackgroundLoop("steps", steps.step, state.wake_step_writer),
            BackgroundLoop("heartbeat", heartbeat.step, state.wake_heartbeat),
            _watch_leases(state),
            *_maintain_store(database, None if is_remote else artifacts),
        ],
    )


def _watch_leases(state: WorkerState) -> BackgroundLoop:
    """Return the loop that stops jobs whose lease was not renewed in time."""

    async def watch(loop: BackgroundLoop) -> None:
        state.leases.stop_overdue()
        await loop.wait_for_wake(min(_WATCH_S, state.leases.next_deadline_s()))

    return BackgroundLoop("watch", watch)


def _maintain_store(database: Engine, store: Artifacts | None) -> list[BackgroundLoop]:
    """Return the artifact store's maintenance loops; none if the worker has no such store."""
    if store is None:
        return []
    recorder = StoreRecorder("worker", store, database.run)
    sweeper = ArtifactSweeper(database.run, store)
    return [BackgroundLoop("artifact store", recorder.step), BackgroundLoop("sweep", sweeper.step)]


def _add_gauges(state: WorkerState, settler: Settler, outage: Outage) -> None:
    if state.meters is not None:
        state.meters.gauges |= {
            "running": lambda: len(state.leases),
            "slots": lambda: state.slots.total,
            "unsettled": lambda: len(settler),
            "reconnects": lambda: outage.ended_count,
            "disconnected": lambda: outage.is_active,
        }
