"""Servers with replication, for the tests of publications, standbys and upgrades."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from cluster import BINARIES, Connection, connect_to, make_folder, wait_until
from psycopg import sql

from jobforge.db.migrate import migrate
from jobforge.embedded import SUPERUSER, Embedded, PostgresServer
from jobforge.embedded.binaries import account_for, find_binaries
from jobforge.testing.cluster import SETTINGS

# Settings of a server that sends its changes to others.
SENDING = {
    **SETTINGS,
    "max_connections": "50",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "shared_buffers": "32MB",
    "wal_level": "logical",
}

# Not replicated: these tables are unlogged, and useless on another server.
UNLOGGED = {"request_rates"}


@contextmanager
def cluster(bin_dir: Path | None = BINARIES) -> Iterator[PostgresServer]:
    """Run a server that other servers can subscribe to."""
    folder = make_folder("jobforge-replicas-")
    embedded = Embedded(folder / "pg", bin_dir=bin_dir, settings=SENDING)
    try:
        embedded.start()
        server = embedded.running()
        assert server is not None
        yield server
    finally:
        embedded.stop()
        shutil.rmtree(folder)


def install(server: PostgresServer) -> None:
    """Create the schema in the template database of new databases."""
    with closing(connect_to(server.url("template1"))) as conn:
        migrate(conn)


@contextmanager
def open_installed_database(server: PostgresServer) -> Iterator[Connection]:
    """Create a database with the schema."""
    name = f"test_{uuid4().hex[:16]}"
    with closing(connect_to(server.url())) as admin:
        admin.execute(sql.SQL("create database {} strategy file_copy").format(sql.Identifier(name)))
    with closing(connect_to(server.url(name))) as conn:
        yield conn


@contextmanager
def copy_of(primary: PostgresServer, *, is_standby: bool) -> Iterator[PostgresServer]:
    """Copy the server with pg_basebackup: a standby that follows the primary, or a
    restored backup.
    """
    folder = make_folder("jobforge-copies-")
    account = account_for(primary.socket_dir)
    if account:
        account.take_ownership(folder)
    binaries = find_binaries(BINARIES).for_account(account)
    binaries.run_checked(
        *("pg_basebackup", "-D", str(folder / "pg"), "-h", str(primary.socket_dir)),
        *("-p", str(primary.port), "-U", SUPERUSER, "--checkpoint=fast", "--no-sync"),
        *(["--write-recovery-conf"] if is_standby else []),
    )
    # The socket of the primary is in its data folder, and pg_basebackup copies the socket's lock
    # file.
    for lock in (folder / "pg").glob(".s.PGSQL.*.lock"):
        lock.unlink()
    embedded = Embedded(folder / "pg", bin_dir=BINARIES, settings=SENDING)
    try:
        embedded.start()
        server = embedded.running()
        assert server is not None
        yield server
    finally:
        embedded.stop()
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Subscription:
    """All changes of the source from now on, received by the target."""

    source: Connection
    target: Connection

    @classmethod
    def create(cls, source: Connection, target: Connection, *, options: str = "") -> "Subscription":
        """Subscribe to publication `everything`, and copy the existing rows."""
        where = f"host={source.info.host} port={source.info.port} user={SUPERUSER}"
        where += f" dbname={source.info.dbname}"
        # Within one server, the command itself cannot create the slot.
        source.execute("select pg_create_logical_replication_slot('everything', 'pgoutput')")
        target.execute(
            sql.SQL(
                "create subscription everything connection {} publication everything"
                " with (create_slot = false" + options + ")"
            ).format(where)
        )
        subscription = cls(source, target)
        subscription.wait_for_copy()
        return subscription

    def refresh(self) -> None:
        """Subscribe to tables that were added to the publication."""
        self.target.execute("alter subscription everything refresh publication")
        self.wait_for_copy()

    def wait_for_copy(self) -> None:
        waiting = "select from pg_subscription_rel where srsubstate <> 'r'"
        wait_until(lambda: not self.target.execute(waiting).rowcount, why=self._errors)

    def wait(self) -> None:
        """Wait until the target has all that the source has committed."""
        reached = (
            "select from pg_replication_slots"
            " where slot_name = 'everything' and confirmed_flush_lsn >= %s::pg_lsn"
        )
        end = [flush(self.source)]
        wait_until(lambda: bool(self.source.execute(reached, end).rowcount), why=self._errors)

    def drop(self) -> None:
        self.target.execute("alter subscription everything disable")
        self.target.execute("alter subscription everything set (slot_name = none)")
        self.target.execute("drop subscription everything")

    def differences(self) -> dict[str, tuple[object, object]]:
        """Return the tables that differ, with the rows of each side."""
        mine, foreign = contents(self.source), contents(self.target)
        return {
            table: (mine.get(table), foreign.get(table))
            for table in {*mine, *foreign}
            if mine.get(table) != foreign.get(table)
        }

    def _errors(self) -> str:
        found = self.target.execute("select * from pg_stat_subscription_stats").fetchall()
        return f"the target has not received it: {found}"


def drop_slots(source: Connection) -> None:
    """Drop all slots of the server, because a slot prevents dropping its database.

    A walsender releases its slot only when it notices that its subscriber has disconnected.
    """
    active = "select from pg_replication_slots where active"
    wait_until(
        lambda: not source.execute(active).rowcount, why=lambda: "a walsender still uses its slot"
    )
    source.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def flush(conn: Connection) -> str:
    """Flush committed changes to disk, and return the end position in the WAL."""
    with conn.transaction():
        conn.execute("set local synchronous_commit = on")
        conn.execute("select pg_logical_emit_message(true, 'test', '')")
    [row] = conn.execute("select pg_current_wal_lsn()::text as lsn").fetchall()
    return str(row["lsn"])


def prepare_target(target: Connection) -> None:
    """Remove the rows that db migrate wrote, because the source's rows would collide with them."""
    target.execute(
        "truncate jobforge.migrations, jobforge.statistics_position, jobforge.reaper,"
        " jobforge.locks, jobforge.signing_key"
    )


def contents(conn: Connection) -> dict[str, list[str]]:
    """Return the rows of every table, with partitions counted as their parents."""
    tables = conn.execute(
        "select relname from pg_class where relnamespace = 'jobforge'::regnamespace"
        " and relkind in ('r', 'p') and not relispartition"
    ).fetchall()
    return {name: rows(conn, name) for row in tables if (name := row["relname"]) not in UNLOGGED}


def rows(conn: psycopg.Connection[dict[str, object]], table: str) -> list[str]:
    query = sql.SQL("select t::text as row from jobforge.{} as t order by 1")
    found = conn.execute(query.format(sql.Identifier(table))).fetchall()
    return [str(row["row"]) for row in found]
