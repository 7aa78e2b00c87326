"""The server is shut down immediately, or killed, and restarted."""

import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import wait_until
from faults.crashable_postgres import CrashableCluster
from faults.invariants import overlaps
from faults.scenario import SEED, Scenario, spread_of, times

RESTARTS = times(3, 50)

pytestmark = pytest.mark.timeout(times(120, 7200))


@pytest.fixture
def cluster(folder: Path) -> CrashableCluster:
    return CrashableCluster(folder)


@pytest.fixture
def scenario(cluster: CrashableCluster, folder: Path) -> Iterator[Scenario]:
    created = Scenario(cluster.create_database(), folder)
    yield created
    created.close()


def test_a_crashing_server_loses_no_acknowledged_job(
    scenario: Scenario, cluster: CrashableCluster, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with_load = 0
    with scenario.worker_group(lease_s=5, heartbeat_s=1) as group, scenario.producer() as producer:
        scenario.wait_until_ready(group.start(), group.start())
        thread = threading.Thread(
            target=producer.keep_enqueuing, args=[lambda: [scenario.random_job(chance)]]
        )
        thread.start()
        for number in range(RESTARTS):
            _wait_for_work(scenario)
            with_load += bool(scenario.count("running"))
            cluster.crash(signal.SIGKILL if number % 2 else signal.SIGQUIT)
            cluster.restart()
        producer.stop()
        thread.join()
        group.check_alive()
        scenario.finish(group, within_s=times(60, 300))
    evidence = scenario.check(claims_vanish=True)
    cluster.check_intact()

    forgotten = set(evidence.runs) - evidence.granted
    figures |= {
        "jobs": len(evidence.states),
        "restarts": RESTARTS,
        "restarts while jobs ran": with_load,
        "enqueues refused or in doubt": producer.refused,
        "of them committed": producer.existing,
        "claims forgotten": len(forgotten),
        "overlaps s": spread_of(overlap.seconds for overlap in overlaps(evidence)),
        "outcomes": scenario.outcomes(),
    }
    assert with_load == RESTARTS
    assert producer.refused >= RESTARTS


def _wait_for_work(scenario: Scenario) -> None:
    """Wait until more jobs are acknowledged, and some have succeeded."""
    acknowledged, succeeded = len(scenario.oracle.acknowledged()), scenario.count("succeeded")
    wait_until(
        lambda: (
            len(scenario.oracle.acknowledged()) > acknowledged + 20
            and scenario.count("succeeded") > succeeded + 5
            and scenario.count("running") > 0
        )
    )
