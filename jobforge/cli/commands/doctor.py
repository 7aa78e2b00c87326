"""`jobforge doctor`: check an installation; report problems and how to fix them."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from uuid import uuid4

import psycopg
import typer
from psycopg import sql

from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.database import connect
from jobforge.cli.engine import find_url, open_remote_engine
from jobforge.cli.findings import print_findings
from jobforge.cli.options import AsJson
from jobforge.cli.shared_options import ENGINE
from jobforge.client.address import ServerAddress, address_from_config
from jobforge.client.http_only_requests import read_findings
from jobforge.config import Config, secret_files
from jobforge.db.connection import Connection
from jobforge.db.doctor import collect
from jobforge.db.doctor.checks import diagnose
from jobforge.db.doctor.findings import Facts, Finding, Grade

_HEARD_S = 2.0

app = CommandGroup()


@app.command(options=ENGINE)
def doctor(context: CommandContext, *, as_json: AsJson = False) -> None:
    """Check an installation. Exits with 1 if a check fails.

    With --server and an operator key, the checks run on the server, with its login.
    """
    address = address_from_config(context.config)
    findings = _check_locally(context.config) if address is None else _check_remotely(address)
    if as_json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if any(finding.grade is Grade.FAILED for finding in findings):
        raise typer.Exit(1)


def _check_locally(config: Config) -> list[Finding]:
    from jobforge.worker.isolation.host_checks import check_isolation

    url = find_url(config)
    with connect(url) as conn:
        facts = _gather_facts(conn, url, config.listen_url)
    found = diagnose(replace(facts, readable_secret_files=_list_readable_secret_files(config)))
    return [*found, *check_isolation()]


def _list_readable_secret_files(config: Config) -> list[Path]:
    """Return credential files that jobs of a worker with this user and folder can read."""
    from jobforge.worker.isolation import landlock

    found = secret_files(config)
    closed = landlock.protectable(found) if landlock.is_available() else []
    return [path for path in found if path not in closed and os.access(path, os.R_OK)]


def _check_remotely(address: ServerAddress) -> list[Finding]:
    with open_remote_engine(address) as engine:
        found = engine.transport.run(read_findings())
    output.note("Checked by the server; LISTEN is not checked")
    return [Finding(**{**each, "grade": Grade(each["grade"])}) for each in found]


def _gather_facts(conn: Connection, url: str, listen_url: str | None) -> Facts:
    facts = collect.gather(conn)
    if not facts.inspection.has_schema:
        return facts
    if facts.workers is None:
        output.note("Not checked: schema files, workers, jobs; these require jobforge_admin")
    return replace(facts, is_notify_received=_is_notify_delivered(url, listen_url))


def _is_notify_delivered(url: str, listen_url: str | None) -> bool:
    """Return whether a NOTIFY arrives on a second connection, as workers need it.

    A pooler in transaction mode can move the listening session to another client.
    """
    channel = f"jobforge_doctor_{uuid4().hex[:8]}"
    with (
        psycopg.connect(listen_url or url, autocommit=True) as listener,
        psycopg.connect(url, autocommit=True) as notifier,
    ):
        listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        notifier.execute("select pg_notify(%s, '')", [channel])
        return any(True for _ in listener.notifies(timeout=_HEARD_S, stop_after=1))
