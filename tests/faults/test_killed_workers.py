"""F1, F2 and I23: workers and the processes of jobs are killed without warning."""

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
from faults.scenario import SEED, Trial, spread_of, times

WORKER_KILLS = times(30, 1000)
CHILD_KILLS = times(20, 1000)
CREW = 4
BACKLOG = 40

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_killed_workers_lose_nothing_and_record_nothing_twice(
    trial: Trial, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    left: dict[Lease, float] = {}
    under_load = 0
    with trial.crew() as crew, trial.producer() as producer:
        trial.wait_until_ready(crew.start(), *(crew.start() for _ in range(CREW - 1)))
        for _ in range(WORKER_KILLS):
            if (trial.unfinished() or 0) < BACKLOG:
                producer.enqueue([trial.some_job(chance) for _ in range(BACKLOG)])
            # So that they die at all points of their work, not only when they begin.
            goal = trial.oracle.count("exit") + chance.randrange(4)
            wait_until(partial(trial.has_come_to, goal))
            worker = trial.pick_busy(crew, chance)
            worker.kill()
            orphaned = dict.fromkeys(trial.leases_left_by(worker), time.time())
            under_load += bool(orphaned)
            left |= orphaned
            crew.replace(worker)
        trial.finish(crew, within_s=times(60, 300))
    evidence = trial.check()

    ended = trial.ends()
    figures |= {
        "jobs": len(evidence.states),
        "kills": WORKER_KILLS,
        "kills while jobs ran": under_load,
        "leases left behind": len(left),
        "outcomes": trial.outcomes(),
        "lease of s": crew.lease_s,
        "free again after s": spread_of(ended[lease] - at for lease, at in left.items()),
    }
    assert under_load >= WORKER_KILLS // 2, "the workers had nothing to lose"
    assert trial.outcomes()["lease_lost"] >= WORKER_KILLS // 2


def test_no_process_of_a_job_outlives_its_killed_worker(trial: Trial) -> None:
    with trial.crew() as crew, trial.producer() as producer:
        worker = crew.start()
        trial.wait_until_ready(worker)
        producer.enqueue([trial.request("brood", gate=str(trial.gate()))] * 3)
        wait_until(lambda: trial.oracle.count("spawn") == 3)
        assert len(trial.oracle.survivors()) == 6
        worker.kill()
        wait_until(lambda: not trial.oracle.survivors())

        trial.gate().touch()
        crew.replace(worker)
        trial.finish(crew)
    trial.check()


def test_a_killed_process_of_a_job_is_noticed_at_once_and_the_job_runs_again(
    trial: Trial, figures: dict[str, object]
) -> None:
    """The lease is so long that whatever ended the attempts, it was not its end."""
    killed: dict[Lease, float] = {}
    with trial.crew(lease_s=300, heartbeat_s=100) as crew, trial.producer() as producer:
        trial.wait_until_ready(crew.start())
        producer.enqueue([trial.request("hold", gate=str(trial.gate()))] * crew.slots)
        while len(killed) < CHILD_KILLS:
            wait_until(lambda: _living(trial) != set())
            for job, lease, pid in _living(trial):
                os.kill(pid, signal.SIGKILL)
                killed[job, lease] = time.time()
            wait_until(lambda: trial.outcomes().get("crashed", 0) == len(killed))
        trial.gate().touch()
        trial.finish(crew)
    evidence = trial.check()

    ended = trial.ends()
    figures |= {
        "kills": len(killed),
        "outcomes": trial.outcomes(),
        "recorded after s": spread_of(ended[lease] - at for lease, at in killed.items()),
    }
    assert {evidence.outcomes[lease] for lease in killed} == {"crashed"}
    assert trial.outcomes() == {"crashed": len(killed), "succeeded": crew.slots}


def _living(trial: Trial) -> set[tuple[UUID, int, int]]:
    """Handlers at work: their job, lease and process."""
    return {
        (mark.job, mark.lease, mark.pid)
        for mark in trial.oracle.marks()
        if mark.what == "enter" and is_process_of(mark.pid, mark.at)
    }
