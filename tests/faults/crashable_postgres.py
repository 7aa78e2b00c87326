"""A separate Postgres server for a test that crashes and restarts it."""

import os
import signal

import psycopg
from cluster import BINARIES, TEMPLATE, Cluster, Database, run_program, wait_until
from faults.oracle import is_process_of, now
from faults.scenario import IS_LONG

from jobforge.embedded import SUPERUSER, Embedded
from jobforge.testing.cluster import SETTINGS

NAME = "faults"

# A commit is written before it is acknowledged. That suffices for crashes of the server; only a
# crash of the machine would require syncing to disk, which is the slowest part.
SYNCED = "on" if IS_LONG else "off"
DURABLE = {**SETTINGS, "synchronous_commit": "on", "fsync": SYNCED, "full_page_writes": SYNCED}


class CrashableCluster(Cluster):
    """One database in a server that is crashed and restarted."""

    def embedded(self) -> Embedded:
        return Embedded(self.folder / "pg", bin_dir=BINARIES, settings=DURABLE)

    def create_database(self) -> Database:
        server = self.start()
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(f"create database {NAME} template {TEMPLATE}")
        return Database(NAME, server)

    def crash(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Kill the server.

        SIGQUIT is Postgres's immediate shutdown: no checkpoint, no message to clients.
        """
        server = self.embedded().running()
        assert server is not None, "the server is already down"
        before = now()
        os.kill(server.pid, how)
        wait_until(lambda: not is_process_of(server.pid, before))

    def restart(self) -> None:
        """Start the server; Postgres recovers from its log before this returns."""
        self.embedded().start()

    def check_intact(self) -> None:
        """Check that every page can be read and, with amcheck installed, that every index matches
        its table."""
        server = self.embedded().running()
        assert server is not None
        run_program("pg_dump", "-d", server.url(NAME))
        with psycopg.connect(server.url(NAME)) as conn:
            amcheck = "select from pg_available_extensions where name = 'amcheck'"
            if conn.execute(amcheck).rowcount == 0:
                return
        where = ("-h", str(server.socket_dir), "-p", str(server.port), "-U", SUPERUSER, "-d", NAME)
        run_program("pg_amcheck", *where, "--install-missing", "--heapallindexed")
