"""Workers that are frozen, or cut off, until their leases expire."""

import random
from uuid import UUID

import pytest
from cluster import wait_until
from faults.oracle import now
from faults.proxy import Proxy
from faults.scenario import SEED, Scenario, spread_of, times
from faults.workers import wait_for_end_of

FREEZES = times(4, 100)
STALLS = times(3, 100)

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_a_worker_frozen_past_its_leases_changes_nothing_when_it_wakes(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    """By then the jobs run elsewhere; their old processes are killed, and their outcomes not
    reported."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    overlaps: list[float] = []
    with scenario.worker_group(slots=2) as group, scenario.producer() as producer:
        scenario.wait_until_ready(group.start(), group.start())
        for number in range(FREEZES):
            gate = scenario.gate(f"gate-{number}")
            jobs = producer.enqueue([scenario.request("hold", gate=str(gate))] * 2)
            _wait_until_entered(scenario, dict.fromkeys(jobs, 0))
            worker = chance.choice([w for w in group.members if scenario.running_on(w)])
            caught = {job: scenario.leases_of(job)[-1] for job in scenario.running_on(worker)}
            pids = worker.tree()
            with worker.frozen(pids):
                _wait_until_entered(scenario, caught)
            woken = now()
            runs = scenario.oracle.runs()
            for lease in caught.items():
                wait_for_end_of([*runs[lease].pids], woken)
            gate.touch()
            wait_until(lambda: scenario.unfinished() == 0)
            runs = scenario.oracle.runs()
            assert not any(runs[lease].has_finished for lease in caught.items())
            overlaps += [runs[lease].last_seen - woken for lease in caught.items()]
        scenario.finish(group)
    scenario.check()

    figures |= {
        "freezes": FREEZES,
        "leases lost": len(overlaps),
        "lived after waking s": spread_of(overlaps),
        "outcomes": scenario.outcomes(),
    }
    assert len(overlaps) >= FREEZES


def test_outcomes_that_arrive_after_their_lease_are_refused(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    """One worker is cut off while its jobs finish; another has run them again before it
    reconnects."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with (
        Proxy(scenario.database, seed=SEED) as proxy,
        scenario.worker_group(proxy.url("worker_login")) as group,
        scenario.worker_group(name="direct") as direct,
        scenario.producer() as producer,
    ):
        cut_off = group.start()
        scenario.wait_until_ready(cut_off)
        for _ in range(STALLS):
            producer.enqueue([scenario.random_job(chance) for _ in range(20)])
            scenario.wait_until_busy(cut_off)
            with proxy.stalled():
                rescuer = direct.start()
                scenario.wait_until_ready(rescuer)
                wait_until(lambda: not scenario.running_on(cut_off))
                wait_until(lambda: scenario.unfinished() == 0)
            direct.drain()
            direct.members.clear()
        scenario.finish(group)
    evidence = scenario.check()

    late = [
        lease
        for lease, run in evidence.runs.items()
        if run.has_finished and evidence.outcomes[lease] == "lease_lost"
    ]
    figures |= {
        "stalls": STALLS,
        "outcomes that came too late": len(late),
        "refused by the engine": group.logged("job.lost"),
        "outcomes": scenario.outcomes(),
    }
    assert len(late) >= STALLS
    assert group.logged("job.lost") >= STALLS


def _wait_until_entered(scenario: Scenario, past: dict[UUID, int]) -> None:
    """Wait until each job's handler has started under a lease greater than the given one."""
    wait_until(
        lambda: all(max(scenario.leases_of(job), default=0) > lease for job, lease in past.items())
    )
