"""The faults of the Python worker, made to the TypeScript worker: same oracle, same rules."""

import contextlib
import random
import signal
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from cluster import wait_until
from contract.typescript import worker_command
from faults.crashable_postgres import MortalCluster
from faults.oracle import now
from faults.scenario import SEED, Trial, times
from faults.workers import wait_for_end_of

KILLS = times(4, 300)
FREEZES = times(1, 50)
CRASHES = times(1, 50)
CREW = 2
BACKLOG = 20

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_killed_workers_of_typescript_lose_nothing_and_record_nothing_twice(
    trial: Trial, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    left = 0
    with trial.crew(command=worker_command("faults_app.ts")) as crew, trial.producer() as producer:
        trial.wait_until_ready(*(crew.start() for _ in range(CREW)))
        for _ in range(KILLS):
            if (trial.unfinished() or 0) < BACKLOG:
                producer.enqueue([trial.some_job(chance) for _ in range(BACKLOG)])
            goal = trial.oracle.count("exit") + chance.randrange(4)
            wait_until(partial(trial.has_come_to, goal))
            worker = trial.pick_busy(crew, chance)
            worker.kill()
            left += len(trial.leases_left_by(worker))
            crew.replace(worker)
        trial.finish(crew, within_s=times(90, 300))
    trial.check()

    figures |= {"kills": KILLS, "leases left behind": left, "outcomes": trial.outcomes()}
    assert left >= KILLS // 2, "the workers had nothing to lose"


def test_a_worker_of_typescript_frozen_past_its_leases_changes_nothing_when_it_wakes(
    trial: Trial, figures: dict[str, object]
) -> None:
    """Only the worker is frozen: its jobs have to end by themselves, before others run them."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    lost = 0
    with (
        trial.crew(command=worker_command("faults_app.ts"), slots=2) as crew,
        trial.producer() as producer,
    ):
        trial.wait_until_ready(crew.start(), crew.start())
        for number in range(FREEZES):
            gate = trial.gate(f"gate-{number}")
            jobs = producer.enqueue([trial.request("hold", gate=str(gate))] * 2)
            _wait_until_entered(trial, dict.fromkeys(jobs, 0))
            worker = chance.choice([w for w in crew.members if trial.running_on(w)])
            caught = {job: trial.leases_of(job)[-1] for job in trial.running_on(worker)}
            frozen_at = now()
            with worker.frozen([worker.pid]):
                runs = trial.oracle.runs()
                for lease in caught.items():
                    wait_for_end_of([*runs[lease].pids], frozen_at)
                _wait_until_entered(trial, caught)
            gate.touch()
            wait_until(lambda: trial.unfinished() == 0)
            runs = trial.oracle.runs()
            assert not any(runs[lease].came_to_its_end for lease in caught.items())
            lost += len(caught)
        trial.finish(crew)
    trial.check()

    figures |= {"freezes": FREEZES, "leases lost": lost, "outcomes": trial.outcomes()}
    assert lost >= FREEZES


def test_workers_of_typescript_outlive_crashes_of_the_server_and_lose_nothing(
    folder: Path, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    cluster = MortalCluster(folder)
    trial = Trial(cluster.give_birth(), folder)
    command = worker_command("faults_app.ts")
    with (
        contextlib.closing(trial),
        trial.crew(command=command, lease_s=5, heartbeat_s=1) as crew,
        trial.producer() as producer,
    ):
        worker = crew.start()
        trial.wait_until_ready(worker)
        for number in range(CRASHES):
            if (trial.unfinished() or 0) < 3 * BACKLOG:
                producer.enqueue([trial.some_job(chance) for _ in range(BACKLOG)])
            trial.wait_until_busy(worker)
            cluster.crash(signal.SIGKILL if number % 2 else signal.SIGQUIT)
            cluster.restart()
        crew.check_alive()
        trial.finish(crew, within_s=times(60, 300))
        trial.check(claims_vanish=True)
        figures |= {"crashes": CRASHES, "outcomes": trial.outcomes()}


def _wait_until_entered(trial: Trial, past: dict[UUID, int]) -> None:
    """Until each of these jobs has entered under a lease greater than the one given."""
    wait_until(
        lambda: all(max(trial.leases_of(job), default=0) > lease for job, lease in past.items())
    )
