"""Which locks a call takes and waits for: none that do not concern it."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    Json,
    call,
    complete,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)
from sql.limit_kinds import KINDS, Kind
from sql.mutation import mutate
from sql.uncached_claim import claim

REGISTRATIONS: dict[str, Callable[[Connection, Kind], object]] = {
    "put": lambda conn, kind: kind.cap(conn, 3),
    "override": lambda conn, _: call(
        conn, "override_definition", key="test", overrides={"max_running": 3}
    ),
    "pause": lambda conn, _: call(conn, "pause_definition", key="test"),
    # Also of a definition that is not paused, because it takes the same locks.
    "resume": lambda conn, _: call(conn, "resume_definition", key="test"),
}


@pytest.mark.parametrize("kind", ["definition", "key"])
@pytest.mark.parametrize("registration", REGISTRATIONS)
def test_an_uncommitted_registration_blocks_no_claim_of_the_definition(
    conn: Connection, connect: Connect, kind: str, registration: str
) -> None:
    definition(conn)
    KINDS[kind].cap(conn, 2)
    enqueue(conn, n=5, limit_key="red")
    registering = connect(autocommit=False)
    REGISTRATIONS[registration](registering, KINDS[kind])
    assert len(claim(conn, new_worker(), limit=5)) == 2


@pytest.mark.parametrize("mode", ["retained", "active", "window"])
def test_enqueues_that_find_an_existing_key_do_not_wait_for_each_other(
    conn: Connection, connect: Connect, mode: str
) -> None:
    definition(conn)
    options: Json = {"key": "hot", "key_mode": mode}
    if mode == "window":
        options["key_window_s"] = 60
    job = enqueue_one(conn, **options)
    finding = connect(autocommit=False)
    assert enqueue_one(finding, **options) == job
    conn.execute("set lock_timeout = '1ms'")  # it must not wait at all
    assert enqueue_one(conn, **options) == job


def _locks(conn: Connection, job: UUID) -> int:
    """Return how many relations one get_job locks."""
    with conn.transaction():
        call(conn, "get_job", job_id=job, tenant_id=TENANT_A)
        [row] = conn.execute(
            "select count(*) as n from pg_locks where pid = pg_backend_pid() "
            "and locktype = 'relation' and relation in "
            "(select oid from pg_class where relnamespace = 'jobforge'::regnamespace)"
        ).fetchall()
    n = row["n"]
    assert isinstance(n, int)
    return n


def _finished(conn: Connection) -> UUID:
    job, worker = enqueue_one(conn), new_worker()
    complete(conn, worker, claim(conn, worker, limit=1))
    return job


def test_a_job_is_read_without_locking_partitions_of_other_days(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    call(conn, "ensure_partitions", days=1)
    few = {_locks(conn, _finished(conn)) for _ in range(3)}
    old = _finished(conn)
    for back in range(2, 40):
        conn.execute(
            """
            do $$
            declare v_table text; v_day date;
            begin
                for v_table in values ('finished_jobs'), ('attempts'), ('job_events') loop
                    v_day := (jobforge_private.now() at time zone 'UTC')::date - %s;
                    -- After midnight the template has the partition of the day before yesterday.
                    continue when to_regclass(format('jobforge.%%I',
                        format('%%s_%%s', v_table, to_char(v_day, 'YYYYMMDD')))) is not null;
                    perform jobforge_private.build_partition(v_table, v_day);
                    execute format('alter table jobforge.%%I attach partition jobforge.%%I '
                        'for values from (%%L) to (%%L)', v_table,
                        format('%%s_%%s', v_table, to_char(v_day, 'YYYYMMDD')),
                        v_day || ' 00:00+00', v_day + 1 || ' 00:00+00');
                end loop;
            end $$
            """.replace("%s", str(back), 1)
            .replace("%%", "%")
            .encode()
        )
    call(conn, "ensure_partitions", days=40)
    assert {_locks(conn, old) for _ in range(8)} == few
    # Three days of three tables have 30 of them; the others are unpartitioned tables and indexes.
    assert max(few) <= 90
    clock.travel(days=5)
    enqueue_one(conn)
    assert call(conn, "get_job", job_id=old, tenant_id=TENANT_A)[0]["job"]["state"] == "succeeded"


@pytest.mark.usefixtures("clock")
def test_a_job_whose_id_is_not_a_uuid_of_version_7_is_found(conn: Connection) -> None:
    definition(conn)
    job, other = _finished(conn), uuid4()
    for table, column in (("finished_jobs", "id"), ("attempts", "job_id")):
        query = f"update jobforge.{table} set {column} = %s where {column} = %s"
        conn.execute(query.encode(), [other, job])
    [row] = call(conn, "get_job", job_id=other, tenant_id=TENANT_A)
    assert (row["job"]["state"], len(row["attempts"])) == ("succeeded", 1)


def test_a_tenant_is_saved_again_without_reading_zones_or_running_jobs(conn: Connection) -> None:
    definition(conn)
    settings = {"timezone": "Europe/Berlin", "max_running": 5}
    call(conn, "put_tenant", tenant_id=TENANT_A, settings=settings)
    mutate(
        conn,
        "regate_running",
        "v_rows := array(",
        "raise 'reads the running jobs'; v_rows := array(",
    )
    mutate(conn, "put_tenant", "from pg_timezone_names", "from public.zones_are_read")
    conn.execute("create view public.zones_are_read as select (1 / 0)::text as name")
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={**settings, "max_running": 6})
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"name": "A"})
    with pytest.raises(Exception, match="reads the running jobs"):
        call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_running": None})


def test_a_zone_that_does_not_exist_is_refused_when_it_changes(conn: Connection) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"timezone": "Europe/Berlin"})
    with refused("JF002", field="timezone"):
        call(conn, "put_tenant", tenant_id=TENANT_A, settings={"timezone": "Europe/Nowhere"})
