"""The fixtures of tests/cluster.py, which all other tests use."""

from datetime import timedelta

from cluster import Clock, Connect, Connection


def test_a_test_starts_with_no_jobs(conn: Connection) -> None:
    assert conn.execute("select count(*) as n from jobforge.jobs").fetchone() == {"n": 0}


def test_a_login_has_the_requested_role(connect: Connect) -> None:
    client = connect("client_login")
    row = client.execute("select session_user::text as who").fetchone()
    assert row == {"who": "client_login"}


def test_the_clock_moves_for_every_connection_of_the_database(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    before = clock.now()
    clock.travel(hours=3)
    row = connect().execute("select jobforge_private.now() as now").fetchone()
    assert row is not None
    assert row["now"] - before >= timedelta(hours=3)
    assert conn.info.dbname == connect().info.dbname
