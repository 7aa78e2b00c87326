"""Groups of dead jobs: their members, counts and annotations."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connection
from sql.dead_jobs import create_dead_jobs, run_all
from sql.engine import TENANT_A, Row, call, definition, enqueue_one, new_worker, refused


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    definition(shared_conn)
    definition(shared_conn, "other")
    return shared_conn


@pytest.fixture
def tenant() -> UUID:
    return uuid4()


def failures(conn: Connection, tenant: UUID, **arguments: Any) -> list[Row]:
    return call(conn, "list_failures", tenant_id=tenant, **arguments)


def annotate(conn: Connection, tenant: UUID, fingerprint: str, **changes: Any) -> None:
    call(conn, "annotate_failure", fingerprint=fingerprint, changes=changes, tenant_id=tenant)


def test_jobs_with_equal_errors_are_one_group_and_the_newest_is_its_sample(
    conn: Connection, tenant: UUID
) -> None:
    create_dead_jobs(conn, 2, tenant, message="row 1 is gone")
    [other] = create_dead_jobs(conn, 1, tenant, message="no answer")
    newest = create_dead_jobs(conn, 3, tenant, message="row 77 is gone")[-1]
    rows = failures(conn, tenant)
    assert [(row["jobs"], row["sample_job_id"]) for row in rows] == [(5, newest), (1, other)]
    assert rows[0]["error"] == {"type": "Oops", "message": "row 77 is gone"}
    assert rows[0]["definition"] == "test"
    assert rows[0]["first_seen"] < rows[0]["last_seen"]


def test_only_dead_jobs_are_counted(conn: Connection, tenant: UUID) -> None:
    jobs = create_dead_jobs(conn, 3, tenant)
    call(conn, "retry_job", job_id=jobs[0], tenant_id=tenant)
    call(conn, "cancel_job", job_id=jobs[1], tenant_id=tenant)
    enqueue_one(conn, tenant)
    assert [row["jobs"] for row in failures(conn, tenant)] == [1]
    run_all(conn, "succeeded", 10)


def test_a_filter_selects_groups_and_the_jobs_they_count(
    shared_clock: Clock, conn: Connection, tenant: UUID
) -> None:
    create_dead_jobs(conn, 2, tenant)
    shared_clock.travel(hours=1)
    between = shared_clock.now() - timedelta(minutes=1)
    create_dead_jobs(conn, 1, tenant, queue="slow")
    create_dead_jobs(conn, 1, tenant, message="else")
    create_dead_jobs(conn, 4, tenant, definition="other")

    def counts(**which: str) -> list[int]:
        return [row["jobs"] for row in failures(conn, tenant, filter=which)]

    assert counts() == [4, 1, 3]
    assert counts(queue="slow") == [1]
    assert counts(definition="other") == [4]
    assert counts(definition="test", since=between.isoformat()) == [1, 1]
    assert counts(definition="nobody's") == []


def test_pages_of_groups_continue_where_the_last_one_ended(conn: Connection, tenant: UUID) -> None:
    for word in ("one", "two", "three", "four", "five"):
        create_dead_jobs(conn, 1, tenant, message=word)
    first = failures(conn, tenant, limit=3)
    rest = failures(conn, tenant, limit=3, before=first[-1]["sample_job_id"])
    messages = [row["error"]["message"] for row in first + rest]
    assert messages == ["five", "four", "three", "two", "one"]


def test_a_group_is_counted_up_to_ten_thousand(conn: Connection, tenant: UUID) -> None:
    [job] = create_dead_jobs(conn, 1, tenant)
    conn.execute(
        """
        insert into jobforge.jobs
        select copy.*
          from (select jobforge_private.uuid7() as id from generate_series(1, 10050)) as new
         cross join jobforge.jobs as j
         cross join lateral jsonb_populate_record(j, jsonb_build_object('id', new.id)) as copy
         where j.tenant_id = %s and j.id = %s
        """,
        [tenant, job],
    )
    assert [row["jobs"] for row in failures(conn, tenant)] == [10000]


def test_a_group_lists_failures_by_hour_and_by_version(
    shared_clock: Clock, conn: Connection, tenant: UUID
) -> None:
    definition(conn, "aging")
    definition(conn, "aging", version=2)
    create_dead_jobs(conn, 1, tenant, definition="aging", version=1)
    shared_clock.travel(hours=23)
    create_dead_jobs(conn, 2, tenant, definition="aging")
    shared_clock.travel(hours=2)
    create_dead_jobs(conn, 3, tenant, definition="aging")
    [group] = failures(conn, tenant)
    assert (group["jobs"], group["versions"]) == (6, [2, 1])
    assert group["hourly"] == [0] * 21 + [2, 0, 3], "the first was more than a day ago"


def test_a_failure_recurred_if_it_happens_on_the_build_that_fixes_it_or_a_later_one(
    shared_clock: Clock, conn: Connection, tenant: UUID
) -> None:
    seen = []
    for build in ("1.0", "1.1", "1.0", "1.2"):
        worker = new_worker()
        call(conn, "register_worker", worker_id=worker, queues=["default"], slots=1, build=build)
        create_dead_jobs(conn, 1, tenant, worker=worker)
        [group] = failures(conn, tenant)
        annotate(conn, tenant, group["fingerprint"], resolved_in="1.1")
        [group] = failures(conn, tenant)
        seen.append((group["build"], group["has_recurred"]))
        shared_clock.travel(minutes=1)
    assert seen == [("1.0", False), ("1.1", True), ("1.0", False), ("1.2", True)]


def test_a_wrong_filter_or_change_is_refused_by_field(conn: Connection, tenant: UUID) -> None:
    create_dead_jobs(conn, 1, tenant)
    [group] = failures(conn, tenant)
    for field, which in [
        ("state", {"state": "dead"}),
        ("since", {"since": "yesterday"}),
        ("queue", {"queue": 5}),
        ("definition", {"definition": None}),
    ]:
        with refused("JF002", field=field):
            failures(conn, tenant, filter=which)
    for limit in (0, 201, None):
        with refused("JF002", field="limit"):
            failures(conn, tenant, limit=limit)
    wrong: list[tuple[str, Any]] = [
        ("jobs", 5),
        ("note", 5),
        ("note", "n" * 4001),
        ("resolved_in", "b" * 201),
        ("snoozed_until", "soon"),
        ("snoozed_until", "2999-01-01T00:00:00Z"),
    ]
    for field, value in wrong:
        with refused("JF002", field=field):
            annotate(conn, tenant, group["fingerprint"], **{field: value})


def test_an_annotation_stays_until_it_is_removed(
    shared_clock: Clock, conn: Connection, tenant: UUID
) -> None:
    jobs = create_dead_jobs(conn, 2, tenant)
    [group] = failures(conn, tenant)
    until = shared_clock.now() + timedelta(days=1)
    annotate(conn, tenant, group["fingerprint"], note="known", snoozed_until=until.isoformat())
    annotate(conn, tenant, group["fingerprint"], resolved_in="1.4.2")
    for job in jobs:
        call(conn, "cancel_job", job_id=job, tenant_id=tenant)
    assert failures(conn, tenant) == []
    annotate(conn, tenant, group["fingerprint"], note=None)
    create_dead_jobs(conn, 1, tenant)
    [group] = failures(conn, tenant)
    noted = (group["note"], group["snoozed_until"], group["resolved_in"])
    assert noted == (None, until, "1.4.2")
    actions = [row["action"] for row in call(conn, "list_audit", tenant_id=tenant)]
    assert actions.count("failure.annotate") == 3


def test_a_group_that_does_not_exist_in_the_tenant_is_not_found(
    conn: Connection, tenant: UUID
) -> None:
    create_dead_jobs(conn, 1, tenant)
    [group] = failures(conn, tenant)
    for fingerprint in (group["fingerprint"], "0123456789abcdef"):
        with refused("JF004", fingerprint=fingerprint):
            annotate(conn, TENANT_A, fingerprint, note="mine")
