"""F3 and F10: workers that stand still, or are cut off, until their leases are over."""

import random
from uuid import UUID

import pytest
from cluster import wait_until
from faults.oracle import now
from faults.proxy import Proxy
from faults.scenario import SEED, Trial, spread_of, times
from faults.workers import wait_for_end_of

FREEZES = times(4, 100)
STALLS = times(3, 100)

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_a_worker_frozen_past_its_leases_changes_nothing_when_it_wakes(
    trial: Trial, figures: dict[str, object]
) -> None:
    """The jobs run elsewhere by then; what is left of them here is killed, not reported."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    overlaps: list[float] = []
    with trial.crew(slots=2) as crew, trial.producer() as producer:
        trial.wait_until_ready(crew.start(), crew.start())
        for number in range(FREEZES):
            gate = trial.gate(f"gate-{number}")
            jobs = producer.enqueue([trial.request("hold", gate=str(gate))] * 2)
            _wait_until_entered(trial, dict.fromkeys(jobs, 0))
            worker = chance.choice([w for w in crew.members if trial.running_on(w)])
            caught = {job: trial.leases_of(job)[-1] for job in trial.running_on(worker)}
            pids = worker.tree()
            with worker.frozen(pids):
                _wait_until_entered(trial, caught)
            woken = now()
            runs = trial.oracle.runs()
            for lease in caught.items():
                wait_for_end_of([*runs[lease].pids], woken)
            gate.touch()
            wait_until(lambda: trial.unfinished() == 0)
            runs = trial.oracle.runs()
            assert not any(runs[lease].came_to_its_end for lease in caught.items())
            overlaps += [runs[lease].last_seen - woken for lease in caught.items()]
        trial.finish(crew)
    trial.check()

    figures |= {
        "freezes": FREEZES,
        "leases lost": len(overlaps),
        "lived after waking s": spread_of(overlaps),
        "outcomes": trial.outcomes(),
    }
    assert len(overlaps) >= FREEZES


def test_outcomes_that_arrive_after_their_lease_are_refused(
    trial: Trial, figures: dict[str, object]
) -> None:
    """One worker is cut off while its jobs end; another runs them again before it is back."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with (
        Proxy(trial.database, seed=SEED) as proxy,
        trial.crew(proxy.url("worker_login")) as crew,
        trial.crew(name="direct") as direct,
        trial.producer() as producer,
    ):
        cut_off = crew.start()
        trial.wait_until_ready(cut_off)
        for _ in range(STALLS):
            producer.enqueue([trial.some_job(chance) for _ in range(20)])
            trial.wait_until_busy(cut_off)
            with proxy.stalled():
                rescuer = direct.start()
                trial.wait_until_ready(rescuer)
                wait_until(lambda: not trial.running_on(cut_off))
                wait_until(lambda: trial.unfinished() == 0)
            direct.drain()
            direct.members.clear()
        trial.finish(crew)
    evidence = trial.check()

    late = [
        lease
        for lease, run in evidence.runs.items()
        if run.came_to_its_end and evidence.outcomes[lease] == "lease_lost"
    ]
    figures |= {
        "stalls": STALLS,
        "outcomes that came too late": len(late),
        "refused by the engine": crew.logged("job.lost"),
        "outcomes": trial.outcomes(),
    }
    assert len(late) >= STALLS
    assert crew.logged("job.lost") >= STALLS


def _wait_until_entered(trial: Trial, past: dict[UUID, int]) -> None:
    """Until each of these jobs has entered under a lease greater than the one given."""
    wait_until(
        lambda: all(max(trial.leases_of(job), default=0) > lease for job, lease in past.items())
    )
