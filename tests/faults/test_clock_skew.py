"""Workers whose clocks are wrong. The database alone decides about leases, so none is lost."""

import random
from pathlib import Path

import pytest
from cluster import wait_until
from faults.scenario import SEED, Scenario, times

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
    scenario: Scenario, figures: dict[str, object]
) -> None:
    """All slots of all workers are in use for longer than a lease, then there is other work."""
    chance = random.Random(SEED)  # noqa: S311 - a seed
    with (
        scenario.worker_group(lease_s=LEASE_S, heartbeat_s=0.5) as group,
        scenario.producer() as producer,
    ):
        site = _patched_site(scenario.folder)
        workers = [group.start(PYTHONPATH=str(site), **_skewed(skew)) for skew in SKEWS]
        scenario.wait_until_ready(*workers)
        held = len(SKEWS) * group.slots
        producer.enqueue([scenario.request("hold", gate=str(scenario.gate()))] * held)
        wait_until(lambda: scenario.value(_OUTLIVED_THEIR_LEASE, LEASE_S) == held)
        scenario.gate().touch()
        producer.enqueue([scenario.random_job(chance) for _ in range(JOBS)])
        scenario.finish(group, within_s=times(60, 600))
    evidence = scenario.check()

    figures |= {"jobs": len(evidence.states), "skews": SKEWS, "outcomes": scenario.outcomes()}
    assert set(scenario.outcomes()) == {"succeeded", "failed"}
    assert scenario.values(_ENDED_AT_ANOTHER_TIME) == []


def _skewed(skew: str) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": skew,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _patched_site(folder: Path) -> Path:
    """Return a folder for PYTHONPATH with a patch: libfaketime breaks the system call of
    time.sleep."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import select, time\ntime.sleep = lambda s: select.select([], [], [], s) and None\n"
    )
    return site
