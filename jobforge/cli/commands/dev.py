"""`jobforge dev`: run Postgres, the HTTP API and a worker for development, until Ctrl-C."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated

import psycopg
import typer

from jobforge.artifacts.default_location import with_default_artifacts
from jobforge.cli import output
from jobforge.cli.app_target import find_worker_target
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.dev_setup import DEV_TENANT, find_or_create_key, find_program, prepare_database
from jobforge.cli.options import INTRODUCE, AppArgument
from jobforge.cli.processes.reloader import Reloader
from jobforge.config import Config
from jobforge.embedded import Embedded
from jobforge.process.environment import environment
from jobforge.process.interrupts import StopRequest
from jobforge.sdk.loader import AppTarget, parse_target
from jobforge.security.api_keys import PlaintextApiKey

# A reload waits this long for running jobs, then releases them; they run on the new code.
_DRAIN = "5s"

_REQUEST = """\
            curl -H "Authorization: Bearer <key>" -H "X-JobForge-Tenant: {tenant}" \\
              {url}/api/v1/jobs"""
_NEXT = """\

  In another terminal:
    {0} psql           opens a prompt in this database
    {0} db status      shows the installed schema
    {0} db url         prints JOBFORGE_DATABASE_URL for your application
"""

app = CommandGroup()


@app.command()
def dev(
    context: CommandContext,
    app_: AppArgument = None,
    *,
    port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="Port of the HTTP API and the dashboard. Default: 8700, or a free port if it is "
            "in use.",
        ),
    ] = None,
    tcp: Annotated[
        bool,
        typer.Option(
            "--tcp", help="Make Postgres also listen on a free port of 127.0.0.1, with a password."
        ),
    ] = False,
) -> None:
    """Run Postgres, the server and a worker until Ctrl-C.

    Postgres is embedded, with its data in this folder. The server has the HTTP API and the
    dashboard. The worker requires an app, or commands in jobforge.toml; it restarts when the source
    changes.
    """
    config = with_default_artifacts(context.load_config(app=app_, server_port=port), None)
    target = _parse_target(find_worker_target(config))
    stopped = StopRequest()
    _on_signals(stopped.set)
    embedded = Embedded(config.postgres_dir, bin_dir=config.pg_bin, tcp=tcp)
    url = embedded.start()
    try:
        if stopped.is_set:
            return
        applied = _prepare(url)
        _ensure_secret_key(config)
        typer.echo(f"  Postgres  embedded in {config.postgres_dir}")
        typer.echo(f"  Schema    {f'{applied} files applied' if applied else 'up to date'}")
        typer.echo(f"  URL       {embedded.tcp_url() if tcp else url}")
        typer.echo(f"  Tenant    {DEV_TENANT}")
        with _serve_api(config, url, any_port=port is None):
            typer.echo(_NEXT.format(find_program()))
            typer.echo(
                "  Press Ctrl-C to stop."
                if embedded.started_here
                else "  Postgres was already running."
            )
            if target is not None:
                _run_workers(target, url, str(config.artifacts), stopped)
            stopped.wait()
    finally:
        if embedded.started_here:
            embedded.stop()
            output.note("Stopped")


def _parse_target(target: str | None) -> AppTarget | None:
    if target is None:
        return None
    return parse_target(target)


def _on_signals(act: Callable[[], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: act())


def _prepare(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as conn:
        return prepare_database(conn)


def _ensure_secret_key(config: Config) -> None:
    """Create the secret key of this folder if connectors, which use it, are installed."""
    from jobforge.connectors import are_installed

    if are_installed():
        from jobforge.security.vault import ensure_dev_key

        ensure_dev_key(config)


@contextmanager
def _serve_api(config: Config, url: str, *, any_port: bool) -> Iterator[None]:
    """Serve the HTTP API in a thread, if its packages are installed."""
    try:
        from jobforge.api.serve import serve_in_thread
    except ImportError:
        output.note('The HTTP API is not installed: pip install "jobforge[server]"')
        yield
        return
    quiet = replace(config, database_url=url, access_log=False)
    with serve_in_thread(quiet, any_port=any_port) as served:
        key = _find_key(config, url)
        typer.echo(f"  API       {served.url}/api/v1")
        typer.echo(f"  Key       {key.text}")
        typer.echo(_REQUEST.format(url=served.url, tenant=DEV_TENANT))
        typer.echo(f"  Dashboard {served.create_sign_in_link(key, DEV_TENANT)}")
        yield


def _find_key(config: Config, url: str) -> PlaintextApiKey:
    with psycopg.connect(url, autocommit=True) as conn:
        return find_or_create_key(config.data_dir / "key", conn)


def _run_workers(target: "AppTarget", url: str, artifacts: str, stopped: StopRequest) -> None:
    """Run workers for the app until a signal arrives."""
    arguments = ["worker", target.text, "--drain-timeout", _DRAIN, INTRODUCE]
    # Use the database even if the environment names a server.
    variables = {
        **environment(),
        "JOBFORGE_DATABASE_URL": url,
        "JOBFORGE_SERVER": "",
        "JOBFORGE_ARTIFACTS": artifacts,
    }

    async def follow() -> None:
        loop = asyncio.get_running_loop()
        reloader = Reloader(arguments, folder=target.folder, environment=variables)

        def stop() -> None:
            stopped.set()  # also if the loop has stopped
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(reloader.stop)

        # Not loop.add_signal_handler: after the loop closes, a signal would kill this process.
        _on_signals(stop)
        if stopped.is_set:
            return
        await reloader.run()

    try:
        asyncio.run(follow())
    finally:
        _on_signals(stopped.set)
