"""F18: workers are asked to end under load, and new ones take their place."""

import random

import pytest
from faults.scenario import SEED, Trial, times
from faults.workers import Worker

ROLLS = times(20, 100)
CREW = 3
HELD = 3
MOST_LEAVING = 3

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_rolling_deploys_use_no_attempt_up(trial: Trial, figures: dict[str, object]) -> None:
    """Short jobs end within the grace of a draining worker; held ones are handed back by it."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    leaving: list[Worker] = []
    with (
        trial.crew(lease_s=60, heartbeat_s=10, drain_s=2) as crew,
        trial.producer() as producer,
    ):
        trial.wait_until_ready(*(crew.start() for _ in range(CREW)))
        producer.enqueue([trial.request("hold", gate=str(trial.gate()))] * HELD)
        for _ in range(ROLLS):
            if (trial.unfinished() or 0) < 20:
                producer.enqueue([trial.request("work", seconds=0.1)] * 20)
            worker = trial.pick_busy(crew, chance)
            worker.terminate()
            leaving.append(worker)
            crew.replace(worker)
            if len(leaving) == MOST_LEAVING:
                _see_off(trial, leaving.pop(0))
        for worker in leaving:
            _see_off(trial, worker)
        handed_back = trial.outcomes().get("released", 0)
        trial.gate().touch()
        trial.finish(crew)
    evidence = trial.check()

    figures |= {"jobs": len(evidence.states), "rolls": ROLLS, "outcomes": trial.outcomes()}
    assert set(trial.outcomes()) == {"succeeded", "released"}
    assert trial.values("select distinct attempt from jobforge.finished_jobs") == [1]
    assert handed_back >= ROLLS // 4, "hardly any worker had a job to release"
    in_vain = [
        lease
        for lease, run in evidence.runs.items()
        if run.came_to_its_end and evidence.outcomes[lease] == "released"
    ]
    assert in_vain == [], "a job ended in its grace period, and was released"


def _see_off(trial: Trial, worker: Worker) -> None:
    """Whoever has ended, has ended in peace and holds nothing any more."""
    identity = trial.id_of(worker)
    assert worker.wait() == 0, worker.last_words()
    assert trial.held_by(identity) == []
