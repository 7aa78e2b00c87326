"""Which artifact folders no job needs, according to the engine."""

from uuid import UUID, uuid4

from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    call_for_value,
    definition,
    enqueue_one,
    refused,
)


def test_a_folder_is_needed_by_the_job_of_its_id_and_by_jobs_that_name_its_files(
    conn: Connection,
) -> None:
    definition(conn, "planted")
    named, free = uuid4(), uuid4()
    job = enqueue_one(
        conn, TENANT_A, definition="planted", artifact_ref=f"artifact:{_at(named)}/payload.json"
    )
    folders = [_at(named), _at(job), _at(free), _at(named, TENANT_B), "no/folder", "", "a/../b"]
    assert _unused(conn, folders) == {_at(free), _at(named, TENANT_B)}
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    assert _unused(conn, folders) == {_at(free), _at(named, TENANT_B)}


def test_a_folder_whose_name_has_the_same_prefix_is_another(conn: Connection) -> None:
    definition(conn, "planted")
    first = UUID("00000000-0000-4000-8000-000000000001")
    enqueue_one(
        conn, TENANT_A, definition="planted", artifact_ref=f"artifact:{_at(first)}-more/payload"
    )
    assert _unused(conn, [_at(first)]) == {_at(first)}


def test_files_uploaded_within_two_days_may_still_get_their_job(
    conn: Connection, clock: Clock
) -> None:
    today = f"{TENANT_A}/{clock.now():%Y-%m-%d}/{uuid4()}"
    assert _unused(conn, [today]) == set()
    clock.travel(days=1, hours=20)
    assert _unused(conn, [today]) == set()
    clock.travel(days=2)
    assert _unused(conn, [today]) == {today}


def test_files_of_an_erased_tenant_are_swept_on_the_same_day(
    conn: Connection, clock: Clock
) -> None:
    erased, other = (
        f"{tenant}/{clock.now():%Y-%m-%d}/{uuid4()}" for tenant in (TENANT_A, TENANT_B)
    )
    assert _unused(conn, [erased, other]) == set()
    call(conn, "delete_tenant", tenant_id=TENANT_A)
    assert _unused(conn, [erased, other]) == {erased}


def test_only_one_process_sweeps_at_a_time(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    other = connect("worker_login")
    assert [_may_sweep(conn), _may_sweep(other)] == [True, False]
    clock.travel(seconds=601)
    assert [_may_sweep(other), _may_sweep(conn)] == [True, False]


def test_more_folders_than_the_limit_are_refused(conn: Connection) -> None:
    with refused("JF002", field="folders", limit=1000):
        _unused(conn, [_at(uuid4())] * 1001)
    with refused("JF002", field="every_s"):
        call(conn, "start_artifact_sweep", every_s=-1)


def _at(folder: UUID, tenant: UUID = TENANT_A) -> str:
    return f"{tenant}/2026-01-01/{folder}"


def _unused(conn: Connection, folders: list[str]) -> set[str]:
    return {row["folder"] for row in call(conn, "unused_artifacts", folders=folders)}


def _may_sweep(conn: Connection) -> bool:
    return bool(call_for_value(conn, "start_artifact_sweep", every_s=600))
