"""The doctor's checks: each problem is found in the facts and has a remedy."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jobforge.db.doctor.checks import diagnose
from jobforge.db.doctor.findings import Facts, Finding, Grade
from jobforge.db.doctor.probes import (
    ConnectionUsage,
    PartitionCoverage,
    ServerConditions,
    TableStats,
    VacuumBlocker,
)
from jobforge.db.doctor.server_facts import Inspection
from jobforge.db.doctor.vacuum_checks import advise_vacuum
from jobforge.types.diagnostics import InstallationProblem
from jobforge.types.workers import WorkerInfo

NOW = datetime.now(UTC)
SOUND = Inspection(
    version=180004,
    user="ops",
    is_superuser=False,
    bypasses_rls=False,
    owns_tables=False,
    is_service=False,
    has_schema=True,
    is_replica=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    default_isolation="read committed",
    statement_timeout_ms=0,
    lock_timeout_ms=0,
    idle_in_transaction_timeout_ms=0,
    is_behind_pooler=False,
)
JOBS = TableStats("jobs", 8192, 10, 0, NOW, has_autovacuum=True)
AHEAD = PartitionCoverage("attempts", 7, has_default_rows=False)
SESSION = VacuumBlocker("session", "4711", "reports", "psql", "idle in transaction", 12, 900.0)


def worker(state: str, clock_skew_s: float = 0.01) -> WorkerInfo:
    return WorkerInfo(
        id=uuid4(),
        state=state,
        host="mill",
        pid=7,
        build=None,
        queues=["default"],
        definitions=None,
        slots=10,
        running=0,
        started_at=NOW - timedelta(hours=1),
        heartbeat_at=NOW - timedelta(minutes=5),
        stopped_at=None,
        memory_bytes=64 << 20,
        clock_skew_s=clock_skew_s,
    )


HEALTHY = Facts(
    SOUND,
    round_trip_s=0.001,
    skew_s=0.0,
    schema_faults=[],
    is_notify_received=True,
    connections=ConnectionUsage(10, 100),
    tables=[JOBS],
    partition_coverage=[AHEAD],
    workers=[worker("live")],
    problems=[],
)


def problems(**facts: Any) -> list[Finding]:
    """Return the findings beyond those of a healthy installation."""
    return [each for each in diagnose(replace(HEALTHY, **facts)) if each.grade is not Grade.OK]


def seen(**facts: Any) -> dict[str, Any]:
    return {"inspection": replace(SOUND, **facts)}


def test_a_healthy_installation_has_no_finding_and_lists_the_checks() -> None:
    findings = diagnose(HEALTHY)
    assert {finding.grade for finding in findings} == {Grade.OK}
    assert len({finding.check for finding in findings}) == len(findings) == 17


def test_the_advice_about_vacuum_is_that_of_the_doctor() -> None:
    assert advise_vacuum(HEALTHY) == []
    facts = replace(
        HEALTHY, vacuum_blockers=[SESSION], tables=[replace(JOBS, dead=200_000)], workers=[]
    )
    assert [(each.check, each.fix) for each in advise_vacuum(facts)] == [
        ("snapshots", "select pg_terminate_backend(4711);"),
        ("vacuum", "vacuum jobforge.jobs;  -- after the session with the snapshot has finished"),
    ]


def unreadable(kind: str, subject: str, detail: str) -> dict[str, Any]:
    return {"unreadable": [InstallationProblem(kind, subject, uuid4(), NOW, detail)]}


def stuck(kind: str, subject: str, detail: str) -> dict[str, Any]:
    return {"problems": [InstallationProblem(kind, subject, uuid4(), NOW, detail)]}


CASES: list[tuple[dict[str, Any], str, Grade, str]] = [
    (seen(version=140009), "server", Grade.FAILED, "Upgrade"),
    (seen(is_replica=True), "server", Grade.FAILED, "primary"),
    (seen(is_superuser=True), "login", Grade.WARNING, "jobforge_client"),
    (seen(has_schema=False), "schema", Grade.FAILED, "jobforge db migrate"),
    ({"schema_faults": ["claim_jobs"]}, "schema", Grade.FAILED, "jobforge db migrate"),
    ({"access_faults": ["jobs is open"]}, "access", Grade.FAILED, "db migrate --repair"),
    ({"is_newer": True, "schema_faults": ["x"]}, "schema", Grade.WARNING, "Upgrade JobForge"),
    ({"is_notify_received": False}, "wakeups", Grade.WARNING, "JOBFORGE_LISTEN_URL"),
    ({"skew_s": 90.0}, "clock", Grade.WARNING, "chrony"),
    ({"skew_s": -90.0}, "clock", Grade.WARNING, "chrony"),
    ({"workers": [worker("live", clock_skew_s=-3.0)]}, "clock", Grade.WARNING, "chrony"),
    (seen(fsync=False), "durability", Grade.FAILED, "fsync = on"),
    (seen(full_page_writes=False), "durability", Grade.FAILED, "full_page_writes = on"),
    (seen(synchronous_commit="off"), "durability", Grade.FAILED, "synchronous_commit = on"),
    ({"connections": ConnectionUsage(90, 100)}, "connections", Grade.WARNING, "PgBouncer"),
    (
        {"server_conditions": ServerConditions(True, False)},  # noqa: FBT003 - two facts
        "snapshots",
        Grade.WARNING,
        "pg_read_all_stats",
    ),
    ({"vacuum_blockers": [SESSION]}, "snapshots", Grade.FAILED, "pg_terminate_backend(4711)"),
    (
        {"vacuum_blockers": [replace(SESSION, kind="prepared", name="order 7")]},
        "snapshots",
        Grade.FAILED,
        "rollback prepared 'order 7'",
    ),
    (
        {
            "vacuum_blockers": [
                replace(SESSION, kind="slot", name="cdc", seconds=None, age=2_000_000)
            ]
        },
        "snapshots",
        Grade.FAILED,
        "pg_drop_replication_slot('cdc')",
    ),
    (
        {"vacuum_blockers": [replace(SESSION, kind="standby", seconds=None, age=2_000_000)]},
        "snapshots",
        Grade.FAILED,
        "hot_standby_feedback",
    ),
    (
        {"server_conditions": ServerConditions(False, True)},  # noqa: FBT003 - two facts
        "vacuum",
        Grade.FAILED,
        "autovacuum = on",
    ),
    ({"tables": [replace(JOBS, has_autovacuum=False)]}, "vacuum", Grade.FAILED, "reset"),
    ({"tables": [replace(JOBS, dead=500_000)]}, "vacuum", Grade.WARNING, "vacuum jobforge.jobs"),
    (
        {"partition_coverage": [replace(AHEAD, days_ahead=0)]},
        "partitions",
        Grade.FAILED,
        "ensure_partitions",
    ),
    (
        {"partition_coverage": [replace(AHEAD, has_default_rows=True)]},
        "partitions",
        Grade.WARNING,
        "ensure_partitions",
    ),
    ({"workers": []}, "workers", Grade.WARNING, "jobforge worker"),
    ({"workers": [worker("live"), worker("stale")]}, "workers", Grade.WARNING, "process"),
    (stuck("unserved", "send@2", "mail"), "definitions", Grade.FAILED, "--queues mail"),
    (stuck("overdue", "nightly", "@daily"), "schedules", Grade.FAILED, "jobforge scheduler"),
    (stuck("faulty", "nightly", "no such zone"), "schedules", Grade.WARNING, "triggers edit"),
    (stuck("webhook", "e1", "410 Gone"), "webhooks", Grade.WARNING, "webhooks edit e1 --enable"),
    (stuck("event", "e1", "1000"), "events", Grade.FAILED, "jobforge scheduler"),
    (stuck("operation", "o1", "cancel"), "operations", Grade.FAILED, "Start a server"),
    (stuck("blocked", "j1", "send"), "blocked", Grade.FAILED, "jobforge scheduler"),
    (unreadable("removed", "j1", "payload"), "values", Grade.WARNING, "jobs cancel j1"),
    (unreadable("job", "j1", "payload"), "values", Grade.FAILED, "jobs erase j1"),
    (
        unreadable("attempts", "job_id = 'j1' and lease = '7'", "error"),
        "values",
        Grade.FAILED,
        "where job_id = 'j1' and lease = '7';  -- as a superuser",
    ),
    (
        unreadable("finished_jobs", "id = 'j1'", "payload, result"),
        "values",
        Grade.FAILED,
        """set payload = '{"$unreadable": "removed"}', result = '{"$unreadable": "removed"}' """,
    ),
    (
        unreadable("operations", "id = 'o1'", "filter"),
        "values",
        Grade.FAILED,
        """set filter = '{"$unreadable": "removed"}' where""",
    ),
    (
        unreadable("operations", "id = 'o1'", "progress"),
        "values",
        Grade.FAILED,
        """set progress = '{"phase": "jobs"}' where""",
    ),
    (
        unreadable("connector_configs", "id = 'c1'", "secrets"),
        "values",
        Grade.FAILED,
        "set secrets = '{}' where id = 'c1';",
    ),
    (
        unreadable("declared_triggers", "name = 'nightly'", "settings"),
        "values",
        Grade.FAILED,
        "delete from jobforge.declared_triggers where name = 'nightly';",
    ),
]


@pytest.mark.parametrize(("facts", "check", "grade", "remedy"), CASES)
def test_each_problem_is_found_alone_and_has_its_remedy(
    facts: dict[str, Any], check: str, grade: Grade, remedy: str
) -> None:
    (finding,) = problems(**facts)
    assert (finding.check, finding.grade) == (check, grade)
    assert remedy in (finding.fix or "")


def test_a_row_with_a_long_value_is_named_with_its_table() -> None:
    [finding] = problems(**unreadable("steps", "job_id = 'j1' and name = 'charge'", "result"))
    assert finding.message.startswith(
        "result of the row in jobforge.steps with job_id = 'j1' and name = 'charge' is too long"
    )


def test_without_unreadable_values_the_number_of_checked_rows_is_shown() -> None:
    [finding] = [
        each for each in diagnose(replace(HEALTHY, unreadable=[])) if each.check == "values"
    ]
    assert finding.grade is Grade.OK
    assert "50,000 rows of each table" in finding.message


def test_a_recent_snapshot_is_not_reported() -> None:
    assert problems(vacuum_blockers=[replace(SESSION, seconds=20.0)]) == []


def test_without_permission_to_see_workers_nothing_is_reported_about_them() -> None:
    checks = {finding.check for finding in diagnose(replace(HEALTHY, workers=None, problems=None))}
    assert checks.isdisjoint({"workers", "definitions", "schedules", "events"})


def test_of_many_different_rights_a_few_are_named_and_the_rest_is_counted() -> None:
    found = problems(access_faults=[f"fault {n}" for n in range(300)])
    assert [each.message for each in found][-2:] == [
        "fault 4",
        "295 more rights differ from this release",
    ]
    assert {each.fix for each in found} == {"jobforge db migrate --repair"}


def test_a_difference_in_rights_changes_the_remedy_of_files_to_repair() -> None:
    [schema] = [
        each
        for each in problems(schema_faults=["x"], access_faults=["fault"])
        if each.check == "schema"
    ]
    assert schema.fix == "jobforge db migrate --repair"


def test_rights_that_could_not_be_compared_are_not_reported() -> None:
    assert problems(access_faults=None) == []


def test_files_with_readable_credentials_are_named() -> None:
    [finding] = problems(readable_secret_files=[Path("/home/app/.pgpass")])
    assert (finding.check, finding.grade) == ("credentials", Grade.WARNING)
    assert "/home/app/.pgpass" in finding.message
    assert problems(readable_secret_files=[]) == []
