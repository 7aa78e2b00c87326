"""The rules of a job's life: the engine itself cannot write a job that breaks one of them."""

import psycopg
import pytest
from cluster import Connection
from sql.engine import definition, enqueue_one

BREACHES = [
    ("jobs_are_in_a_live_state", "state = 'succeeded'"),
    ("running_jobs_hold_a_lease", "state = 'running'"),
    ("running_jobs_hold_a_lease", "worker_id = gen_random_uuid(), lease_expires_at = now()"),
    ("running_jobs_hold_a_lease", "state = 'running', worker_id = gen_random_uuid()"),
    ("queued_jobs_have_a_queue_time", "queued_at = null"),
    ("dead_jobs_have_an_end", "state = 'dead'"),
    ("dead_jobs_have_an_end", "finished_at = now()"),
    ("attempts_stay_within_the_allowance", "attempt = max_attempts + 1"),
    ("attempts_stay_within_the_allowance", "attempt = -1"),
    ("only_running_jobs_are_asked_to_cancel", "cancel_requested_at = now()"),
]
_COPY = """
insert into jobforge.jobs
select (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'attempt', -1))).*
  from jobforge.jobs as j
"""


@pytest.fixture
def engine(conn: Connection) -> Connection:
    """A session of the engine's; it finds a job that is queued."""
    definition(conn)
    enqueue_one(conn)
    conn.execute("set role jobforge_engine")
    return conn


@pytest.mark.parametrize(("rule", "change"), BREACHES)
def test_no_change_breaks_a_rule(engine: Connection, rule: str, change: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f'"{rule}"'):
        engine.execute(f"update jobforge.jobs set {change}".encode())


def test_no_new_job_breaks_a_rule(engine: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="attempts_stay_within"):
        engine.execute(_COPY)


def test_every_rule_was_tried(conn: Connection) -> None:
    found = conn.execute(
        "select policyname as name from pg_policies where permissive <> 'PERMISSIVE'"
    )
    assert {row["name"] for row in found} == {rule for rule, _ in BREACHES}
