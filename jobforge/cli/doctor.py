"""`jobforge doctor`: looks at an installation, and says what is wrong and how to mend it."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl, connect, find_url
from jobforge.cli.options import AsJson
from jobforge.config import load
from jobforge.errors import Denied

if TYPE_CHECKING:
    from jobforge.doctor import Facts, Finding
    from jobforge.migrate import Connection

_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}
_HEARD_S = 2.0


def doctor(*, as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """Check everything that an installation needs. Exit code 1 when something failed."""
    from jobforge.doctor import Grade, diagnose

    with connect(database_url) as conn:
        findings = diagnose(_facts(conn, database_url))
    if as_json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            _print(finding)
    if any(finding.grade is Grade.FAILED for finding in findings):
        raise typer.Exit(1)


def _print(finding: "Finding") -> None:
    typer.echo(f"{_MARKS[finding.grade]} {finding.check:<12}{output.clean(finding.message)}")
    if finding.fix:
        typer.echo(f"{'':14}{output.clean(finding.fix)}")


def _facts(conn: "Connection", database_url: str | None) -> "Facts":
    from jobforge import calls, db, examination, migrate
    from jobforge.doctor import Facts
    from jobforge.inspection import inspect

    seen = db.run(conn, inspect(conn.info.backend_pid))
    began = time.perf_counter()
    now = db.run(conn, examination.clock())
    took = time.perf_counter() - began
    skew = (datetime.now(UTC) - now).total_seconds() - took / 2
    if not seen.has_schema:
        return Facts(seen, took, skew, [], is_heard=None)
    faults, workers, unserved = None, None, None
    try:
        workers = db.run(conn, calls.list_workers())
        unserved = db.run(conn, examination.unserved())
        faults = [
            file.name for file in migrate.status(conn) if file.state is not migrate.State.APPLIED
        ]
    except Denied:
        output.note("not looked at: the schema's files, workers, jobs; they are for jobforge_admin")
    return Facts(
        seen,
        took,
        skew,
        faults,
        is_heard=_is_heard(find_url(database_url)),
        access_faults=db.run(conn, examination.access_faults()),
        surroundings=db.run(conn, examination.surroundings()),
        connections=db.run(conn, examination.connections()),
        horizon=db.run(conn, examination.horizon()),
        tables=db.run(conn, examination.tables()),
        history=db.run(conn, examination.history()),
        workers=workers,
        unserved=unserved,
    )


def _is_heard(url: str) -> bool:
    """Over two connections, as workers have it: a pooler may give one of them to somebody else."""
    import psycopg
    from psycopg import sql

    channel = f"jobforge_doctor_{uuid4().hex[:8]}"
    listen = load().listen_url or url
    with (
        psycopg.connect(listen, autocommit=True) as hearing,
        psycopg.connect(url, autocommit=True) as saying,
    ):
        hearing.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        saying.execute("select pg_notify(%s, '')", [channel])
        return any(True for _ in hearing.notifies(timeout=_HEARD_S, stop_after=1))
