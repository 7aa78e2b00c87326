"""The faults of the Python worker, applied to the TypeScript worker: same oracle, same rules."""

import contextlib
import random
import signal
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from cluster import wait_until
from contract.typescript_sdk import worker_command
from faults.crashable_postgres import CrashableCluster
from faults.oracle import now
from faults.scenario import SEED, Scenario, times
from faults.workers import wait_for_end_of

KILLS = times(4, 300)
FREEZES = times(1, 50)
CRASHES = times(1, 50)
PROCESSES = 2
BACKLOG = 20

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_killed_typescript_workers_lose_nothing_and_record_nothing_twice(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    left = 0
    with (
        scenario.worker_group(command=worker_command("faults_app.ts")) as group,
        scenario.producer() as producer,
    ):
        scenario.wait_until_ready(*(group.start() for _ in range(PROCESSES)))
        for _ in range(KILLS):
            if (scenario.unfinished() or 0) < BACKLOG:
                producer.enqueue([scenario.random_job(chance) for _ in range(BACKLOG)])
            goal = scenario.oracle.count("exit") + chance.randrange(4)
            wait_until(partial(scenario.has_finished, goal))
            worker = scenario.pick_busy(group, chance)
            worker.kill()
            left += len(scenario.leases_left_by(worker))
            group.replace(worker)
        scenario.finish(group, within_s=times(90, 300))
    scenario.check()

    figures |= {"kills": KILLS, "leases left behind": left, "outcomes": scenario.outcomes()}
    assert left >= KILLS // 2, "the workers had nothing to lose"


def test_a_typescript_worker_frozen_past_its_leases_changes_nothing_when_it_wakes(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    """Only the worker is frozen: its jobs must finish by themselves before other workers run
    them."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    lost = 0
    with (
        scenario.worker_group(command=worker_command("faults_app.ts"), slots=2) as group,
        scenario.producer() as producer,
    ):
        scenario.wait_until_ready(group.start(), group.start())
        for number in range(FREEZES):
            gate = scenario.gate(f"gate-{number}")
            jobs = producer.enqueue([scenario.request("hold", gate=str(gate))] * 2)
            _wait_until_entered(scenario, dict.fromkeys(jobs, 0))
            worker = chance.choice([w for w in group.members if scenario.running_on(w)])
            caught = {job: scenario.leases_of(job)[-1] for job in scenario.running_on(worker)}
            frozen_at = now()
            with worker.frozen([worker.pid]):
                runs = scenario.oracle.runs()
                for lease in caught.items():
                    wait_for_end_of([*runs[lease].pids], frozen_at)
                _wait_until_entered(scenario, caught)
            gate.touch()
            wait_until(lambda: scenario.unfinished() == 0)
            runs = scenario.oracle.runs()
            assert not any(runs[lease].has_finished for lease in caught.items())
            lost += len(caught)
        scenario.finish(group)
    scenario.check()

    figures |= {"freezes": FREEZES, "leases lost": lost, "outcomes": scenario.outcomes()}
    assert lost >= FREEZES


def test_typescript_workers_survive_crashes_of_the_server_and_lose_nothing(
    folder: Path, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    cluster = CrashableCluster(folder)
    scenario = Scenario(cluster.create_database(), folder)
    command = worker_command("faults_app.ts")
    with (
        contextlib.closing(scenario),
        scenario.worker_group(command=command, lease_s=5, heartbeat_s=1) as group,
        scenario.producer() as producer,
    ):
        worker = group.start()
        scenario.wait_until_ready(worker)
        for number in range(CRASHES):
            if (scenario.unfinished() or 0) < 3 * BACKLOG:
                producer.enqueue([scenario.random_job(chance) for _ in range(BACKLOG)])
            scenario.wait_until_busy(worker)
            cluster.crash(signal.SIGKILL if number % 2 else signal.SIGQUIT)
            cluster.restart()
        group.check_alive()
        scenario.finish(group, within_s=times(60, 300))
        scenario.check(claims_vanish=True)
        figures |= {"crashes": CRASHES, "outcomes": scenario.outcomes()}


def _wait_until_entered(scenario: Scenario, past: dict[UUID, int]) -> None:
    """Wait until each job's handler has started under a lease greater than the given one."""
    wait_until(
        lambda: all(max(scenario.leases_of(job), default=0) > lease for job, lease in past.items())
    )
