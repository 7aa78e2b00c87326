"""Workers and job processes are killed without warning."""

import os
import random
import signal
import time
from functools import partial
from uuid import UUID

import pytest
from cluster import wait_until
from faults.invariants import Lease
from faults.oracle import is_process_of
from faults.scenario import SEED, Scenario, spread_of, times

WORKER_KILLS = times(30, 1000)
CHILD_KILLS = times(20, 1000)
PROCESSES = 4
BACKLOG = 40

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_killed_workers_lose_nothing_and_record_nothing_twice(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    left: dict[Lease, float] = {}
    under_load = 0
    with scenario.worker_group() as group, scenario.producer() as producer:
        scenario.wait_until_ready(group.start(), *(group.start() for _ in range(PROCESSES - 1)))
        for _ in range(WORKER_KILLS):
            if (scenario.unfinished() or 0) < BACKLOG:
                producer.enqueue([scenario.random_job(chance) for _ in range(BACKLOG)])
            # This delay lets them die at all points of their work, not only at its beginning.
            goal = scenario.oracle.count("exit") + chance.randrange(4)
            wait_until(partial(scenario.has_finished, goal))
            worker = scenario.pick_busy(group, chance)
            worker.kill()
            orphaned = dict.fromkeys(scenario.leases_left_by(worker), time.time())
            under_load += bool(orphaned)
            left |= orphaned
            group.replace(worker)
        scenario.finish(group, within_s=times(60, 300))
    evidence = scenario.check()

    ended = scenario.ends()
    figures |= {
        "jobs": len(evidence.states),
        "kills": WORKER_KILLS,
        "kills while jobs ran": under_load,
        "leases left behind": len(left),
        "outcomes": scenario.outcomes(),
        "lease of s": group.lease_s,
        "free again after s": spread_of(ended[lease] - at for lease, at in left.items()),
    }
    assert under_load >= WORKER_KILLS // 2, "the workers had nothing to lose"
    assert scenario.outcomes()["lease_lost"] >= WORKER_KILLS // 2


def test_no_process_of_a_job_survives_its_killed_worker(scenario: Scenario) -> None:
    with scenario.worker_group() as group, scenario.producer() as producer:
        worker = group.start()
        scenario.wait_until_ready(worker)
        producer.enqueue([scenario.request("hold_with_child", gate=str(scenario.gate()))] * 3)
        wait_until(lambda: scenario.oracle.count("spawn") == 3)
        assert len(scenario.oracle.survivors()) == 6
        worker.kill()
        wait_until(lambda: not scenario.oracle.survivors())

        scenario.gate().touch()
        group.replace(worker)
        scenario.finish(group)
    scenario.check()


def test_a_killed_job_process_is_noticed_at_once_and_the_job_runs_again(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    """The lease is so long that its expiry cannot have ended the attempts."""
    killed: dict[Lease, float] = {}
    with (
        scenario.worker_group(lease_s=300, heartbeat_s=100) as group,
        scenario.producer() as producer,
    ):
        scenario.wait_until_ready(group.start())
        producer.enqueue([scenario.request("hold", gate=str(scenario.gate()))] * group.slots)
        while len(killed) < CHILD_KILLS:
            wait_until(lambda: _living(scenario) != set())
            for job, lease, pid in _living(scenario):
                os.kill(pid, signal.SIGKILL)
                killed[job, lease] = time.time()
            wait_until(lambda: scenario.outcomes().get("crashed", 0) == len(killed))
        scenario.gate().touch()
        scenario.finish(group)
    evidence = scenario.check()

    ended = scenario.ends()
    figures |= {
        "kills": len(killed),
        "outcomes": scenario.outcomes(),
        "recorded after s": spread_of(ended[lease] - at for lease, at in killed.items()),
    }
    assert {evidence.outcomes[lease] for lease in killed} == {"crashed"}
    assert scenario.outcomes() == {"crashed": len(killed), "succeeded": group.slots}


def _living(scenario: Scenario) -> set[tuple[UUID, int, int]]:
    """Return the running handlers: their job, lease and process."""
    return {
        (mark.job, mark.lease, mark.pid)
        for mark in scenario.oracle.marks()
        if mark.what == "enter" and is_process_of(mark.pid, mark.at)
    }
