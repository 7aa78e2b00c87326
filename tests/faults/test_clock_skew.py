"""F12: workers whose clocks are wrong. Leases are the database's affair, so nothing happens."""

import random
from pathlib import Path

import pytest
from cluster import wait_until
from faults.scenario import SEED, Trial, times

LIBRARIES = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
SKEWS = ["+15m", "-15m", "+1d", "-1d"]
JOBS = times(60, 2000)
LEASE_S = 6.0

_OUTLIVED_THEIR_LEASE = """
    select count(*) from jobforge.all_jobs
     where state = 'running' and heartbeat_at > started_at + make_interval(secs => %s)
"""
_ENDED_AT_ANOTHER_TIME = """
    select a.job_id from jobforge.all_attempts as a
      join public.ledger as l on l.job_id = a.job_id and l.lease = a.lease
     where l.from_state = 'running' and abs(extract(epoch from l.at - a.ended_at)) > 60
"""

pytestmark = [
    pytest.mark.timeout(times(120, 7200)),
    pytest.mark.skipif(not LIBRARIES, reason="libfaketime is not installed"),
]


def test_workers_with_wrong_clocks_neither_lose_nor_steal_leases(
    trial: Trial, figures: dict[str, object]
) -> None:
    """All slots of all of them are held for longer than a lease, then there is other work."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with trial.crew(lease_s=LEASE_S, heartbeat_s=0.5) as crew, trial.producer() as producer:
        site = _fixed_site(trial.folder)
        workers = [crew.start(PYTHONPATH=str(site), **_skewed(skew)) for skew in SKEWS]
        trial.wait_until_ready(*workers)
        held = len(SKEWS) * crew.slots
        producer.enqueue([trial.request("hold", gate=str(trial.gate()))] * held)
        wait_until(lambda: trial.value(_OUTLIVED_THEIR_LEASE, LEASE_S) == held)
        trial.gate().touch()
        producer.enqueue([trial.some_job(chance) for _ in range(JOBS)])
        trial.finish(crew, within_s=times(60, 600))
    evidence = trial.check()

    figures |= {"jobs": len(evidence.states), "skews": SKEWS, "outcomes": trial.outcomes()}
    assert set(trial.outcomes()) == {"succeeded", "failed"}
    assert trial.values(_ENDED_AT_ANOTHER_TIME) == []


def _skewed(skew: str) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": skew,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _fixed_site(folder: Path) -> Path:
    """A folder for PYTHONPATH: libfaketime breaks the system call under time.sleep."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import select, time\ntime.sleep = lambda s: select.select([], [], [], s) and None\n"
    )
    return site
