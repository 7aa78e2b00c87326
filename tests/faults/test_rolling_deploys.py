"""Workers are asked to drain under load, and new ones replace them."""

import random

import pytest
from faults.scenario import SEED, Scenario, times
from faults.workers import Worker

ROLLS = times(20, 100)
PROCESSES = 3
HELD = 3
MOST_LEAVING = 3

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_rolling_deploys_use_up_no_attempt(scenario: Scenario, figures: dict[str, object]) -> None:
    """Short jobs finish within the grace period of a draining worker; it releases those that do
    not."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    leaving: list[Worker] = []
    with (
        scenario.worker_group(lease_s=60, heartbeat_s=10, drain_s=2) as group,
        scenario.producer() as producer,
    ):
        scenario.wait_until_ready(*(group.start() for _ in range(PROCESSES)))
        producer.enqueue([scenario.request("hold", gate=str(scenario.gate()))] * HELD)
        for _ in range(ROLLS):
            if (scenario.unfinished() or 0) < 20:
                producer.enqueue([scenario.request("work", seconds=0.1)] * 20)
            worker = scenario.pick_busy(group, chance)
            worker.terminate()
            leaving.append(worker)
            group.replace(worker)
            if len(leaving) == MOST_LEAVING:
                _check_drained(scenario, leaving.pop(0))
        for worker in leaving:
            _check_drained(scenario, worker)
        released = scenario.outcomes().get("released", 0)
        scenario.gate().touch()
        scenario.finish(group)
    evidence = scenario.check()

    figures |= {"jobs": len(evidence.states), "rolls": ROLLS, "outcomes": scenario.outcomes()}
    assert set(scenario.outcomes()) == {"succeeded", "released"}
    assert scenario.values("select distinct attempt from jobforge.finished_jobs") == [1]
    assert released >= ROLLS // 4, "hardly any worker had a job to release"
    released_after_end = [
        lease
        for lease, run in evidence.runs.items()
        if run.has_finished and evidence.outcomes[lease] == "released"
    ]
    assert released_after_end == [], "a job ended in its grace period, and was released"


def _check_drained(scenario: Scenario, worker: Worker) -> None:
    """A worker that has ended has exit code 0 and no running jobs."""
    identity = scenario.id_of(worker)
    assert worker.wait() == 0, worker.log_tail()
    assert scenario.held_by(identity) == []
