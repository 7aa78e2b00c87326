"""The `jobforge` command line: lists all commands and handles errors at the top level.

commands/ has one module per command or command group, under the command's name. A module is
imported when its command runs. error_reporting.py prints errors and sets exit codes.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer._completion_classes import completion_init
from typer.core import TyperCommand, TyperGroup

from jobforge import errors
from jobforge.cli.error_reporting import INTERNAL_ERROR_HINT, fail
from jobforge.cli.options import TYPER_SETTINGS

_GROUPS = {
    "jobs": "List, inspect and change jobs.",
    "failures": "List, redrive and discard dead jobs by failure group.",
    "queues": "List, pause and limit queues.",
    "definitions": "List, pause and override definitions.",
    "triggers": "Manage schedules and event triggers.",
    "events": "Emit events, list them and inspect their deliveries.",
    "webhooks": "Manage webhooks, which notify receivers about jobs.",
    "connectors": "Configure requests to other services, with their secrets.",
    "secrets": "Create and rotate the key that encrypts tenant secrets.",
    "workflows": "List, inspect, cancel and retry workflows.",
    "stats": "Show attempt statistics for one tenant or across all tenants.",
    "tenants": "List, create, limit, pause and delete tenants.",
    "workers": "List, show, drain and stop workers.",
    "keys": "Create, list, rotate and revoke API keys.",
    "config": "Show the effective settings.",
    "db": "Install, upgrade and check the schema.",
}
_COMMANDS = {
    "init": "Create a small project: an app, its settings and a test.",
    "dev": "Run Postgres, the server and a worker until Ctrl-C.",
    "server": "Serve the HTTP API and the dashboard.",
    "worker": "Register the definitions of an app and run its jobs.",
    "scheduler": "Fire schedules and dispatch events.",
    "enqueue": "Enqueue a job and print its ID.",
    "run": "Run a job in this process and print its result as JSON.",
    "top": "Watch queues, tenants, workers and running jobs.",
    "bench": "Measure how fast this Postgres runs JobForge.",
    "audit": "List changes made by operators and API keys, newest first.",
    "openapi": "Print the OpenAPI document of the HTTP API.",
    "doctor": "Check an installation.",
    "docs": "Print a documentation page as Markdown, or list the pages.",
    "completion": "Print a shell completion script.",
    "psql": "Open psql in the database.",
    "version": "Print the version.",
}
SUMMARIES = {**_COMMANDS, **_GROUPS}


class _Commands(Mapping[str, Any]):
    """The commands by name. Each is built from its module when it is looked up."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer does not export the class
        if name not in SUMMARIES:
            raise KeyError(name)
        return _build(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


@cache
def _build(name: str) -> Any:  # noqa: ANN401 - typer does not export the class
    group = import_module(f"jobforge.cli.commands.{name}").app
    return group.build_group(SUMMARIES[name]) if name in _GROUPS else group.build_command()


class _RootGroup(TyperGroup):
    """The program. Its help needs no module of a command."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as in the base class
        super().__init__(**{**settings, "commands": _Commands()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - as in the base class
        return list(SUMMARIES)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as in the base class
        summaries = [TyperCommand(name, help=text) for name, text in SUMMARIES.items()]
        TyperGroup(commands=summaries).format_commands(ctx, formatter)


app = typer.Typer(
    name="jobforge",
    cls=_RootGroup,
    help="JobForge: a multi-tenant job server on Postgres.",
    no_args_is_help=True,
    **TYPER_SETTINGS,
)


@app.callback()
def _options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of errors.")] = False,
) -> None:
    # error_reporting.fail reads --debug from argv: an error may precede option parsing.
    del debug


def main() -> None:
    """Run the command line: the entry point of `jobforge` and `jf`."""
    _escape_unencodable_output()
    completion_init()  # so that Typer answers the requests of a completion script
    try:
        app()
    except errors.JobForgeError as error:
        fail(error)
    except Exception as error:  # noqa: BLE001 - report every error without a traceback unless --debug is set
        fail(errors.JobForgeError(f"{type(error).__name__}: {error}", hint=INTERNAL_ERROR_HINT))


def _escape_unencodable_output() -> None:
    """Replace characters that the locale cannot encode on stdout, as Python does on stderr."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
