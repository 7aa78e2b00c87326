"""F9: connections break after the server has committed, and before it could say so."""

import random
import threading
from functools import partial

import pytest
from faults.proxy import Cut, Loss, Proxy
from faults.scenario import SEED, Trial, times, wait_within

from jobforge.types.jobs import JobRequest

CUTS = times(20, 1000)
BACKLOG = 200
# Of both the reply is lost; of enqueues sometimes the request, and the client cannot tell.
FAULTS = (
    Cut("enqueue_jobs", Loss.REPLY, 0.3),
    Cut("enqueue_jobs", Loss.REQUEST, 0.1),
    Cut("complete_jobs", Loss.REPLY, 0.3),
    Cut("complete_jobs", Loss.REQUEST, 0.1),
    Cut("claim_jobs", Loss.REPLY, 0.02),
)

pytestmark = pytest.mark.timeout(times(120, 7200))


def test_a_commit_whose_reply_is_lost_counts_once(trial: Trial, figures: dict[str, object]) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with (
        Proxy(trial.database, seed=SEED) as proxy,
        trial.crew(proxy.url("worker_login"), lease_s=10, heartbeat_s=2) as crew,
        trial.producer(proxy.url("service_login")) as producer,
    ):
        trial.wait_until_ready(crew.start())
        proxy.cuts = FAULTS
        thread = threading.Thread(
            target=producer.keep_enqueuing, args=[partial(_some_jobs, trial, chance)]
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
        crew.check_alive()
        trial.finish(crew, within_s=times(60, 300))
    evidence = trial.check()

    figures |= {
        "jobs": len(evidence.states),
        "cuts": {" ".join(what): n for what, n in sorted(proxy.seen.items())},
        "jobs that were there when repeated": producer.existing,
        "outcomes": trial.outcomes(),
    }
    assert producer.existing >= CUTS
    # A worker that did not hear what it was given cannot give it back, and an outcome that was cut
    # off several times in a row may come after its lease: no other lease runs out.
    cuts = proxy.count("claim_jobs") + proxy.count("complete_jobs")
    assert trial.outcomes().get("lease_lost", 0) <= cuts * crew.slots


def _some_jobs(trial: Trial, chance: random.Random) -> list[JobRequest]:
    """None while many are waiting: whoever is cut off does not keep up with one who is not."""
    return [trial.some_job(chance)] * 2 if (trial.unfinished() or 0) < BACKLOG else []
