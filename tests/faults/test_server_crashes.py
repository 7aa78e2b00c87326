"""F5 and F6: the server is shut down at once, or killed, and started again."""

import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import wait_until
from faults.crashable_postgres import MortalCluster
from faults.invariants import overlaps
from faults.scenario import SEED, Trial, spread_of, times

RESTARTS = times(3, 50)

pytestmark = pytest.mark.timeout(times(120, 7200))


@pytest.fixture
def cluster(folder: Path) -> MortalCluster:
    return MortalCluster(folder)


@pytest.fixture
def trial(cluster: MortalCluster, folder: Path) -> Iterator[Trial]:
    made = Trial(cluster.give_birth(), folder)
    yield made
    made.close()


def test_a_crashing_server_loses_nothing_that_was_acknowledged(
    trial: Trial, cluster: MortalCluster, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with_load = 0
    with trial.crew(lease_s=5, heartbeat_s=1) as crew, trial.producer() as producer:
        trial.wait_until_ready(crew.start(), crew.start())
        thread = threading.Thread(
            target=producer.keep_enqueuing, args=[lambda: [trial.some_job(chance)]]
        )
        thread.start()
        for number in range(RESTARTS):
            _wait_for_work(trial)
            with_load += bool(trial.count("running"))
            cluster.crash(signal.SIGKILL if number % 2 else signal.SIGQUIT)
            cluster.restart()
        producer.stop()
        thread.join()
        crew.check_alive()
        trial.finish(crew, within_s=times(60, 300))
    evidence = trial.check(claims_vanish=True)
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
        "outcomes": trial.outcomes(),
    }
    assert with_load == RESTARTS
    assert producer.refused >= RESTARTS


def _wait_for_work(trial: Trial) -> None:
    """Some jobs more are acknowledged, and some have succeeded."""
    acknowledged, succeeded = len(trial.oracle.acknowledged()), trial.count("succeeded")
    wait_until(
        lambda: (
            len(trial.oracle.acknowledged()) > acknowledged + 20
            and trial.count("succeeded") > succeeded + 5
            and trial.count("running") > 0
        )
    )
