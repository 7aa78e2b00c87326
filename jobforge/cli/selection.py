"""Which jobs a command is about, as options of it: one list of them for lists and bulk actions."""

from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobforge.cli import candidates
from jobforge.cli.operation import Manner, operate
from jobforge.cli.options import Command, one_of, replaced
from jobforge.errors import Invalid

if TYPE_CHECKING:
    from jobforge.cli.session import Session
    from jobforge.control import OperationKind, OperationOptions
    from jobforge.job import JobFilter

All = Annotated[bool, typer.Option("--all", help="All of the tenant's; instead of a filter.")]

_OPTIONS: dict[str, Any] = {
    "state": Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="Such as queued, running or dead; failed: the last attempt failed. Repeatable.",
        ),
    ],
    "definition": Annotated[
        str | None, typer.Option(metavar="KEY", autocompletion=candidates.definitions)
    ],
    "queue": Annotated[str | None, typer.Option(metavar="NAME", autocompletion=candidates.queues)],
    "tag": Annotated[str | None, typer.Option(metavar="TAG")],
}


def with_filter(command: Command) -> Command:
    """A command that gets `which`: the jobs that the options above name."""

    @wraps(command)
    def run(**said: Any) -> None:  # noqa: ANN401 - as the options have it
        from jobforge.job import JobFilter, State

        for state in said["state"] or ():
            one_of("state", state, (*State, "failed"))
        options = {name: said.pop(name) or None for name in _OPTIONS}
        command(which=JobFilter(**options), **said)

    return replaced(run, "which", _OPTIONS)


def operate_on_all(
    session: "Session",
    kind: "OperationKind",
    which: "JobFilter",
    options: "OperationOptions",
    manner: Manner,
) -> None:
    """On every job that is named; Invalid when neither a filter nor --all is."""
    if not which.to_json() and not manner.everything:
        raise Invalid(
            f"name a job to {kind}, or which ones",
            hint="--state, --definition, --queue, --tag, or --all; with --dry-run they are counted",
        )
    operate(session, kind, which, options, manner)
