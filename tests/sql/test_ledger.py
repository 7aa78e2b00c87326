"""The ledger detects violations: a change that breaks a rule without using the engine is
reported."""

import pytest
from cluster import Connection
from sql.engine import (
    TENANT_A,
    call,
    claim,
    complete,
    definition,
    enqueue,
    new_worker,
    release,
)
from sql.ledger import Ledger

# Each statement breaks one rule, given by the beginning of its name.
DEEDS = [
    (
        "terminal is final",
        """
        insert into jobforge.jobs (tenant_id, id, created_at, run_at, queued_at, version,
                                   max_attempts, allowance, state, definition, queue, payload)
        select tenant_id, id, created_at, run_at, queued_at, version, max_attempts, allowance,
               'queued', definition, queue, payload
          from jobforge.finished_jobs where state = 'succeeded'
        """,
    ),
    (
        "a dead job",
        """
        update jobforge.jobs
           set state = 'running', finished_at = null, worker_id = gen_random_uuid(),
               lease_expires_at = now(), lease = lease + 1, max_attempts = max_attempts + 1,
               attempt = attempt + 1
         where state = 'dead'
        """,
    ),
    (
        "a job finishes once",
        """
        alter table jobforge.finished_jobs drop constraint finished_jobs_pkey;
        insert into jobforge.finished_jobs select * from jobforge.finished_jobs
        """,
    ),
    (
        "a lease ends as",
        """
        update jobforge.jobs
           set state = 'queued', worker_id = null, lease_expires_at = null, lease = lease + 5
         where state = 'running'
        """,
    ),
    (
        "leases strictly increase",
        """
        update jobforge.jobs
           set state = 'running', worker_id = gen_random_uuid(), lease_expires_at = now(),
               attempt = attempt + 1
         where state = 'queued' and lease > 0
        """,
    ),
    (
        "exactly the running jobs",
        """
        alter table jobforge.jobs drop constraint running_jobs_hold_a_lease;
        update jobforge.jobs set worker_id = null where state = 'running'
        """,
    ),
    ("every ended lease", "delete from jobforge.attempts where outcome = 'failed'"),
    (
        "every ended lease",
        """
        alter table jobforge.attempts drop constraint attempts_pkey;
        insert into jobforge.attempts select * from jobforge.attempts
        """,
    ),
    ("attempts are counted", "update jobforge.jobs set attempt = attempt + 1 where attempt = 0"),
    (
        "attempts stay",
        """
        alter table jobforge.jobs drop constraint attempts_stay_within_the_allowance;
        update jobforge.jobs
           set state = 'scheduled', finished_at = null, attempt = max_attempts + 1
         where state = 'dead'
        """,
    ),
    (
        "every claim has ended",
        """
        alter table jobforge.jobs disable trigger ledger_of_changes;
        update jobforge.jobs set state = 'queued', worker_id = null, lease_expires_at = null
         where state = 'running'
        """,
    ),
]


@pytest.fixture(scope="module")
def ledger(shared_conn: Connection) -> Ledger:
    """One job for each of: queued, released, running, dead, succeeded, canceled."""
    definition(shared_conn)
    ledger = Ledger(shared_conn)
    jobs, worker = enqueue(shared_conn, n=6), new_worker()
    released, running, dead, done = sorted(
        claim(shared_conn, worker, limit=4), key=lambda row: str(row["job_id"])
    )
    release(shared_conn, worker, [released])
    complete(shared_conn, worker, [dead], "failed", final=True)
    complete(shared_conn, worker, [done])
    call(shared_conn, "cancel_job", job_id=jobs[5], tenant_id=TENANT_A)
    assert running["job_id"] == jobs[1]
    return ledger


def test_a_run_of_the_engine_breaks_no_rule(ledger: Ledger) -> None:
    ledger.check()
    changes = {(row["from_state"], row["to_state"]) for row in ledger.rows()}
    assert changes == {
        (None, "queued"),
        ("queued", "running"),
        ("running", "queued"),
        ("running", "dead"),
        ("running", "succeeded"),
        ("queued", "canceled"),
    }


@pytest.mark.parametrize(("rule", "deed"), DEEDS, ids=[f"{n}-{d[0]}" for n, d in enumerate(DEEDS)])
def test_a_broken_rule_is_reported(
    shared_conn: Connection, ledger: Ledger, rule: str, deed: str
) -> None:
    with shared_conn.transaction(force_rollback=True):
        shared_conn.execute(deed.encode())
        with pytest.raises(AssertionError) as caught:
            ledger.check()
    assert f"'{rule}" in str(caught.value)
