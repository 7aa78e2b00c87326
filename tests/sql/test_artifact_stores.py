"""The record of which process uses which artifact store."""

from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import call, refused

STORE = uuid4()


def _record(conn: Connection, store_id: UUID | None, kind: str, host: str = "web-1") -> None:
    call(conn, "record_artifact_store", store_id=store_id, kind=kind, host=host, pid=7)


def _listed(conn: Connection) -> list[tuple[str, UUID | None]]:
    found = conn.execute("select kind, store_id from jobforge.list_artifact_stores()")
    return [(row["kind"], row["store_id"]) for row in found]


def test_a_process_that_records_its_store_again_has_one_row(conn: Connection) -> None:
    for store_id in (STORE, STORE, None, None):
        _record(conn, store_id, "worker")
    assert _listed(conn) == [("worker", None), ("worker", STORE)]


def test_inactive_workers_and_servers_are_omitted_sooner_than_apps(
    conn: Connection, clock: Clock
) -> None:
    for kind in ("app", "server", "worker"):
        _record(conn, STORE, kind)
    clock.travel(hours=3)
    assert _listed(conn) == [("app", STORE)]
    clock.travel(hours=22)
    assert _listed(conn) == []
    _record(conn, STORE, "app", host="web-2")
    assert conn.execute("select from jobforge.artifact_stores").rowcount == 1


@pytest.mark.parametrize(("kind", "host"), [("browser", "web-1"), (None, "web-1"), ("app", None)])
def test_a_store_of_an_unknown_kind_or_without_a_host_is_refused(
    conn: Connection, kind: str | None, host: str | None
) -> None:
    with refused("JF002"):
        call(conn, "record_artifact_store", store_id=STORE, kind=kind, host=host)


def test_the_table_does_not_grow_without_bound(conn: Connection) -> None:
    conn.execute(
        """
        select jobforge.record_artifact_store(gen_random_uuid(), 'app', 'host ' || n)
          from generate_series(1, 1010) as n
        """
    )
    assert conn.execute("select from jobforge.artifact_stores").rowcount == 1000


def test_tenants_neither_record_nor_see_stores(connect: Connect) -> None:
    client = connect("client_login")
    with refused("42501"):
        _record(client, STORE, "app")
    with refused("42501"):
        client.execute("select * from jobforge.list_artifact_stores()")
    with refused("42501"):
        client.execute("select * from jobforge.artifact_stores")
