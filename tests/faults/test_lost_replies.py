"""Connections break after the server has committed, and before it has sent the reply."""

import random
import threading
from functools import partial

import pytest
from faults.proxy import Cut, Loss, Proxy
from faults.scenario import SEED, Scenario, times, wait_within

from jobforge.types.jobs import JobRequest

CUTS = times(20, 1000)
BACKLOG = 200
# Both lose replies; enqueues sometimes lose the request, and the client cannot tell which was lost.
FAULTS = (
    Cut("enqueue_jobs", Loss.REPLY, 0.3),
    Cut("enqueue_jobs", Loss.REQUEST, 0.1),
    Cut("complete_jobs", Loss.REPLY, 0.3),
    Cut("complete_jobs", Loss.REQUEST, 0.1),
    Cut("claim_jobs", Loss.REPLY, 0.02),
)

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_a_commit_whose_reply_is_lost_counts_once(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with (
        Proxy(scenario.database, seed=SEED) as proxy,
        scenario.worker_group(proxy.url("worker_login"), lease_s=10, heartbeat_s=2) as group,
        scenario.producer(proxy.url("service_login")) as producer,
    ):
        scenario.wait_until_ready(group.start())
        proxy.cuts = FAULTS
        thread = threading.Thread(
            target=producer.keep_enqueuing, args=[partial(_random_jobs, scenario, chance)]
        )
        thread.start()
        wait_within(
            times(60, 3600),
            lambda: min(proxy.count("enqueue_jobs"), proxy.count("complete_jobs")) >= CUTS,
            lambda: f"too few cuts: {proxy.seen}",
        )
        producer.stop()
        thread.join()
        proxy.cuts = ()
        group.check_alive()
        scenario.finish(group, within_s=times(60, 300))
    evidence = scenario.check()

    figures |= {
        "jobs": len(evidence.states),
        "cuts": {" ".join(what): n for what, n in sorted(proxy.seen.items())},
        "jobs that were there when repeated": producer.existing,
        "outcomes": scenario.outcomes(),
    }
    assert producer.existing >= CUTS
    # A worker that did not receive the reply to a claim cannot release its jobs, and an outcome
    # that was cut off several times in a row may arrive after its lease has expired: no other lease
    # expires.
    cuts = proxy.count("claim_jobs") + proxy.count("complete_jobs")
    assert scenario.outcomes().get("lease_lost", 0) <= cuts * group.slots


def _random_jobs(scenario: Scenario, chance: random.Random) -> list[JobRequest]:
    """Return jobs, or none while many are waiting: a client behind the proxy is slower than a
    direct one."""
    return [scenario.random_job(chance)] * 2 if (scenario.unfinished() or 0) < BACKLOG else []
