"""The rules of a job's row: no role, not even a superuser, can write a row that breaks one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC

import psycopg
import pytest
from cluster import Clock, Connection
from sql.engine import claim, complete, count, definition, enqueue_one, new_worker

JOBS = [
    ("jobs_are_in_a_live_state", "state = 'succeeded'"),
    ("jobs_are_in_a_live_state", "state = 'Queued'"),
    ("running_jobs_hold_a_lease", "state = 'running'"),
    ("running_jobs_hold_a_lease", "worker_id = gen_random_uuid(), lease_expires_at = now()"),
    ("running_jobs_hold_a_lease", "state = 'running', worker_id = gen_random_uuid()"),
    ("running_jobs_hold_a_lease", "lease_expires_at = now()"),
    ("queued_jobs_have_a_queue_time", "queued_at = null"),
    ("dead_jobs_have_an_end", "state = 'dead'"),
    ("dead_jobs_have_an_end", "finished_at = now()"),
    ("attempts_stay_within_the_allowance", "attempt = max_attempts + 1"),
    ("attempts_stay_within_the_allowance", "attempt = -1"),
    ("only_running_jobs_are_asked_to_cancel", "cancel_requested_at = now()"),
]
HISTORY = [
    ("finished_jobs", "finished_jobs_are_in_a_final_state", "state = 'queued'"),
    ("attempts", "attempts_end_in_a_known_way", "outcome = 'queued'"),
    ("attempts", "attempts_end_in_a_known_way", "state = 'running'"),
    ("attempts", "attempts_count_from_one", "attempt = 0"),
]
_COPY = """
insert into jobforge.jobs
select (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'attempt', -1))).*
  from jobforge.jobs as j
"""

each_role = pytest.mark.parametrize("role", ["postgres", "jobforge_engine"])


@pytest.fixture
def queued(conn: Connection) -> Connection:
    """The database has one job, and it is queued."""
    definition(conn)
    enqueue_one(conn)
    return conn


@contextmanager
def broken(rule: str) -> Iterator[None]:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        yield
    assert caught.value.diag.constraint_name == rule


@each_role
@pytest.mark.parametrize(("rule", "change"), JOBS)
def test_no_change_breaks_a_rule(queued: Connection, role: str, rule: str, change: str) -> None:
    queued.execute(f"set role {role}".encode())
    with broken(rule):
        queued.execute(f"update jobforge.jobs set {change}".encode())


@each_role
def test_no_new_job_breaks_a_rule(queued: Connection, role: str) -> None:
    queued.execute(f"set role {role}".encode())
    with broken("attempts_stay_within_the_allowance"):
        queued.execute(_COPY)


@pytest.mark.parametrize(("table", "rule", "change"), HISTORY)
def test_no_change_of_the_history_breaks_a_rule(
    queued: Connection, clock: Clock, table: str, rule: str, change: str
) -> None:
    worker = new_worker()
    complete(queued, worker, claim(queued, worker), "canceled", error={"type": "Stopped"})
    partition = f"{table}_{clock.now().astimezone(UTC):%Y%m%d}"
    assert count(queued, partition) == 1
    for name in (table, partition):
        with broken(rule):
            queued.execute(f"update jobforge.{name} set {change}".encode())


def test_every_rule_is_tested(conn: Connection) -> None:
    found = conn.execute(
        "select conrelid::regclass::text as table, conname as name from pg_constraint"
        " where contype = 'c' and conrelid in ('jobforge.jobs'::regclass,"
        " 'jobforge.finished_jobs'::regclass, 'jobforge.attempts'::regclass)"
    ).fetchall()
    tried = {("jobs", rule) for rule, _ in JOBS} | {(table, rule) for table, rule, _ in HISTORY}
    assert {(re.sub(".*[.]", "", row["table"]), row["name"]) for row in found} == tried


def test_every_partition_has_the_rules_of_its_table(conn: Connection) -> None:
    found = conn.execute(
        """
        select c.relname, k.conname
          from pg_constraint as k
          join pg_inherits as i on i.inhparent = k.conrelid
          join pg_class as c on c.oid = i.inhrelid
         where k.connamespace = 'jobforge'::regnamespace and k.contype = 'c'
           and not exists (select from pg_constraint as e
                            where e.conrelid = c.oid and e.conname = k.conname
                              and e.convalidated
                              and pg_get_constraintdef(e.oid) = pg_get_constraintdef(k.oid))
        """
    ).fetchall()
    assert found == []
