"""`jobforge doctor`: check an installation; report problems and how to fix them."""

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrlOption, connect, find_url
from jobforge.cli.engine import ApiKeyOption, ConnectionOptions, ServerUrlOption, open_remote_engine
from jobforge.cli.findings import print_findings
from jobforge.cli.options import AsJson
from jobforge.config import load

if TYPE_CHECKING:
    from pathlib import Path

    from jobforge.client.address import ServerAddress
    from jobforge.db.connection import Connection
    from jobforge.db.doctor.findings import Facts, Finding

_HEARD_S = 2.0


def doctor(
    *,
    as_json: AsJson = False,
    database_url: DatabaseUrlOption = None,
    server: ServerUrlOption = None,
    api_key: ApiKeyOption = None,
) -> None:
    """Check an installation. Exit code 1 if a check fails.

    With --server and an operator key, the checks run on the server, with its login.
    """
    from jobforge.db.doctor.findings import Grade

    address = ConnectionOptions(database_url, server, api_key).find_server()
    findings = _check_locally(database_url) if address is None else _check_remotely(address)
    if as_json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if any(finding.grade is Grade.FAILED for finding in findings):
        raise typer.Exit(1)


def _check_locally(database_url: str | None) -> "list[Finding]":
    from jobforge.db.doctor.checks import diagnose
    from jobforge.worker.isolation.host_checks import check_isolation

    with connect(database_url) as conn:
        facts = _gather_facts(conn, database_url)
    found = diagnose(
        replace(facts, readable_secret_files=_list_readable_secret_files(database_url))
    )
    return [*found, *check_isolation()]


def _list_readable_secret_files(database_url: str | None) -> "list[Path]":
    """Return credential files that jobs of a worker with this user and folder can read."""
    from jobforge.config import secret_files
    from jobforge.worker.isolation import landlock

    found = secret_files(load(flags={"database_url": database_url}))
    closed = landlock.protectable(found) if landlock.is_available() else []
    return [path for path in found if path not in closed and os.access(path, os.R_OK)]


def _check_remotely(address: "ServerAddress") -> "list[Finding]":
    from jobforge.client.http_only_requests import read_findings
    from jobforge.db.doctor.findings import Finding, Grade

    with open_remote_engine(address) as engine:
        found = engine.transport.run(read_findings())
    output.note("Checked by the server; LISTEN is not checked")
    return [Finding(**{**each, "grade": Grade(each["grade"])}) for each in found]


def _gather_facts(conn: "Connection", database_url: str | None) -> "Facts":
    from jobforge.db.doctor import collect

    facts = collect.gather(conn)
    if not facts.inspection.has_schema:
        return facts
    if facts.workers is None:
        output.note("Not checked: schema files, workers, jobs; these require jobforge_admin")
    return replace(facts, is_notify_received=_is_notify_delivered(find_url(database_url)))


def _is_notify_delivered(url: str) -> bool:
    """Return whether a NOTIFY arrives on a second connection, as workers need it.

    A pooler in transaction mode can move the listening session to another client.
    """
    import psycopg
    from psycopg import sql

    channel = f"jobforge_doctor_{uuid4().hex[:8]}"
    listen = load().listen_url or url
    with (
        psycopg.connect(listen, autocommit=True) as listener,
        psycopg.connect(url, autocommit=True) as notifier,
    ):
        listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        notifier.execute("select pg_notify(%s, '')", [channel])
        return any(True for _ in listener.notifies(timeout=_HEARD_S, stop_after=1))
