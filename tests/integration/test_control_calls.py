"""The functions of the control plane through jobforge.calls: rows become the classes of types/."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A, WORKER, RunCall, report

from jobforge import calls, db
from jobforge.calls import Call
from jobforge.errors import Conflict, IdempotencyKeyReused, Invalid, NotFound
from jobforge.types.api_keys import ApiKey, FoundKey, Role
from jobforge.types.api_requests import EnqueuedOnce
from jobforge.types.audit import AuditEntry, AuditFilter
from jobforge.types.definitions import DefinitionInfo, DefinitionListing, QueueInfo, SlotHolder
from jobforge.types.failures import FailureFilter, FailureGroup
from jobforge.types.jobs import EnqueueStatus, JobFilter, JobRequest, Outcome
from jobforge.types.operations import Operation, OperationKind, OperationOptions, OperationState

T = TypeVar("T")

HASH = bytes(32)


@pytest.fixture
def run(database: Database) -> Iterator[RunCall]:
    """Return a function that runs a call as the server does for tenant A."""
    with db.connect(database.url_as("server_login")) as conn:

        def run_as_server(call: Call[T]) -> T:
            return db.run(conn, call)

        run_as_server(calls.put_definition("mail", 1, {"parameters": {"type": "object"}}))
        yield run_as_server


def kill(run: RunCall, n: int = 1) -> list[UUID]:
    jobs = run(calls.enqueue_jobs([JobRequest("mail")] * n).for_tenant(TENANT_A))
    held = run(calls.claim_jobs(WORKER, {"default": n}))
    error = {"type": "Oops", "message": "no"}
    run(
        calls.complete_jobs(
            WORKER, [report(job, Outcome.FAILED, error=error, final=True) for job in held]
        )
    )
    return [job.job_id for job in jobs]


def test_rows_have_the_columns_of_their_class(conn: Connection) -> None:
    for call, kind in [
        (calls.list_api_keys(), ApiKey),
        (calls.find_api_key("somebody"), FoundKey),
        (calls.list_definitions(), DefinitionListing),
        (calls.list_queues(), QueueInfo),
        (calls.list_holders("default"), SlotHolder),
        (calls.list_audit(), AuditEntry),
        (calls.list_failures(tenant_id=TENANT_A), FailureGroup),
        (calls.list_operations(tenant_id=TENANT_A), Operation),
    ]:
        cursor = conn.execute(call.sql, call.parameters)
        names = [column.name for column in cursor.description or ()]
        assert names == [field.name for field in fields(kind)]


def test_a_key_is_created_found_rotated_and_revoked(run: RunCall) -> None:
    expires_at = datetime.now(UTC) + timedelta(days=1)
    create = calls.create_api_key(
        "ci",
        Role.TENANT_ADMIN,
        lookup="lookup-1",
        hash=HASH,
        scopes=["jobs:read"],
        expires_at=expires_at,
    ).for_tenant(TENANT_A)
    key = run(create)
    with pytest.raises(Conflict):
        run(create)
    found = run(calls.find_api_key("lookup-1"))
    assert found is not None
    assert (found.id, found.tenant_id, found.role) == (key, TENANT_A, Role.TENANT_ADMIN)
    assert (found.hash, found.scopes, found.is_live) == (HASH, ["jobs:read"], True)
    assert found.expires_at == expires_at
    assert run(calls.find_api_key("nobody's")) is None
    run(calls.touch_api_key(key))
    rotate = calls.rotate_api_key(key, lookup="lookup-2", hash=HASH, overlap_s=60)
    new = run(rotate.for_tenant(TENANT_A))
    run(calls.revoke_api_key(new).for_tenant(TENANT_A))
    second, first = run(calls.list_api_keys().for_tenant(TENANT_A))
    assert (first.id, second.id, second.rotated_from) == (key, new, key)
    assert first.last_used_at is not None
    assert second.revoked_at is not None
    with pytest.raises(NotFound):
        run(calls.revoke_api_key(key).for_tenant(uuid4()))
    with pytest.raises(Invalid, match="time zone"):
        calls.create_api_key(
            "ci",
            Role.VIEWER,
            lookup="lookup-3",
            hash=HASH,
            expires_at=datetime(2030, 1, 1),  # noqa: DTZ001 - what is refused
        )


def test_definitions_queues_and_the_log_are_listed(run: RunCall) -> None:
    run(calls.put_definition("mail", 2))
    run(calls.override_definition("mail", {"timeout_s": 5}).with_setting("app.actor", "key:ada"))
    [listed] = run(calls.list_definitions(prefix="ma"))
    assert (listed.key, listed.version, listed.versions) == ("mail", 2, [1, 2])
    info = run(calls.get_definition("mail", version=1))
    assert isinstance(info, DefinitionInfo)
    assert (info.timeout_s, info.overrides) == (5, {"timeout_s": 5})
    assert info.parameters == {"type": "object"}
    with pytest.raises(NotFound):
        run(calls.get_definition("unknown"))

    run(calls.enqueue_job(JobRequest("mail")).for_tenant(TENANT_A))
    [queue] = run(calls.list_queues().for_tenant(TENANT_A))
    assert (queue.name, queue.queued, queue.running, queue.scheduled) == ("default", 1, 0, 0)
    [entry] = run(calls.list_audit(AuditFilter(actor="key:ada")))
    assert (entry.action, entry.target) == ("definition.override", "mail")
    run(calls.note_access("tenant.access", target="t").for_tenant(TENANT_A))
    [entry] = run(calls.list_audit().for_tenant(TENANT_A))
    assert (entry.action, entry.tenant_id) == ("tenant.access", TENANT_A)


def test_failures_are_grouped_and_annotated(run: RunCall) -> None:
    jobs = kill(run, 2)
    since = FailureFilter(definition="mail", since=datetime.now(UTC) - timedelta(hours=1))
    [group] = run(calls.list_failures(since).for_tenant(TENANT_A))
    assert (group.jobs, group.sample_job_id) == (2, jobs[-1])
    until = datetime.now(UTC) + timedelta(days=1)
    changes = {"note": "known", "snoozed_until": until}
    run(calls.annotate_failure(group.fingerprint, changes).for_tenant(TENANT_A))
    [group] = run(calls.list_failures().for_tenant(TENANT_A))
    assert (group.note, group.snoozed_until) == ("known", until)
    after = calls.list_failures(before=group.sample_job_id)
    assert run(after.for_tenant(TENANT_A)) == []


def test_an_operation_is_started_advanced_and_read(run: RunCall) -> None:
    kill(run, 3)
    dead = JobFilter(definition="mail")
    assert run(calls.count_jobs(OperationKind.REDRIVE, dead).for_tenant(TENANT_A)) == 3
    options = OperationOptions(attempts=2, canary=1, rate=100)
    start = calls.start_operation(OperationKind.REDRIVE, dead, options)
    operation = run(start.for_tenant(TENANT_A))
    step = run(calls.advance_operations())
    assert step == (TENANT_A, operation, OperationState.WAITING, 1)
    assert run(calls.advance_operations()) is None
    shown = run(calls.get_operation(operation).for_tenant(TENANT_A))
    assert (shown.kind, shown.state) == (OperationKind.REDRIVE, OperationState.WAITING)
    assert (shown.matched, shown.done, shown.options["rate"]) == (3, 1, 100)
    cancel = calls.cancel_operation(operation).for_tenant(TENANT_A)
    assert run(cancel) is OperationState.CANCELED
    [listed] = run(calls.list_operations().for_tenant(TENANT_A))
    assert listed.finished_at is not None


def test_requests_are_rate_limited_and_deduplicated(run: RunCall) -> None:
    take = calls.take_request("key:1", rate=0.001, burst=1)
    assert run(take) == (True, 0)
    allowed, retry_after_s = run(take)
    assert not allowed
    assert 900 < retry_after_s <= 1000

    def once(body: bytes) -> Call[list[EnqueuedOnce]]:
        jobs = [JobRequest("mail"), JobRequest("mail", {"n": 2})]
        return calls.enqueue_jobs_once(jobs, request_key="r", body_hash=body).for_tenant(TENANT_A)

    first, again = run(once(HASH)), run(once(HASH))
    assert [job.replayed for job in first + again] == [False, False, True, True]
    assert [job.job_id for job in first] == [job.job_id for job in again]
    assert {job.status for job in again} == {EnqueueStatus.CREATED}
    with pytest.raises(IdempotencyKeyReused) as caught:
        run(once(bytes(31) + b"x"))
    assert isinstance(caught.value, Conflict)
