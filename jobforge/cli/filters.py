"""The job filter options that listings and bulk operations share."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobforge.cli import completions
from jobforge.cli.bulk import BulkFlags, run_bulk_operation
from jobforge.cli.filter_query import parse_query
from jobforge.cli.options import CommandFunction, check_choice, replace_parameter
from jobforge.errors import Invalid

if TYPE_CHECKING:
    from jobforge.cli.tenant_session import TenantSession
    from jobforge.types.jobs import JobFilter, JobListing
    from jobforge.types.operations import OperationKind, OperationOptions

AllOption = Annotated[
    bool, typer.Option("--all", help="Select all jobs of the tenant instead of filtering.")
]
IdempotencyKeyOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="Idempotency key to match.")
]

_OPTIONS: dict[str, Any] = {
    "state": Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="State to match; failed matches jobs whose last attempt failed. Repeatable.",
        ),
    ],
    "definition": Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            autocompletion=completions.complete_definitions,
            help="Definition to match.",
        ),
    ],
    "queue": Annotated[
        str | None,
        typer.Option(
            metavar="NAME", autocompletion=completions.complete_queues, help="Queue to match."
        ),
    ],
    "tag": Annotated[str | None, typer.Option(metavar="TAG", help="Tag to match.")],
}
_WHERE = Annotated[
    str | None,
    typer.Option(
        metavar="QUERY",
        help="Filter query as in the dashboard: 'state:dead,failed queue:mail after:1h'.",
    ),
]
_MOST_IN_A_PAGE = 200


def with_filter(command: CommandFunction) -> CommandFunction:
    """Decorate a command: pass it the JobFilter `which` and add the filter options."""

    @wraps(command)
    def run(*, where: str | None, **arguments: Any) -> None:  # noqa: ANN401 - options of any type
        from jobforge.types.jobs import JobFilter, State

        states = (*State, "failed")
        for state in arguments["state"] or ():
            check_choice("state", state, states)
        options = {name: arguments.pop(name) or None for name in _OPTIONS}
        which = narrow_filter(JobFilter(**parse_query(where or "", states)), options)
        command(which=which, **arguments)

    return replace_parameter(run, "which", {**_OPTIONS, "where": _WHERE})


def narrow_filter(which: "JobFilter", options: Mapping[str, Any]) -> "JobFilter":
    """Merge options into a filter: combine states; raise Invalid for a conflicting value."""
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        before = getattr(which, name)
        if name == "state":
            given[name] = [*(before or ()), *value]
        elif before not in {None, value}:
            raise Invalid(
                f"Conflicting {name}: --where has {before}, --{name} has {value}", field=name
            )
    return replace(which, **given)


def list_pages(
    session: "TenantSession", which: "JobFilter", limit: int | None
) -> "Iterator[list[JobListing]]":
    """Yield pages of at most `limit` jobs in total, newest first; all jobs if it is None."""
    from jobforge import calls

    remaining, before = limit, None
    while remaining is None or remaining > 0:
        size = _MOST_IN_A_PAGE if remaining is None else min(remaining, _MOST_IN_A_PAGE)
        page = session.run(calls.list_jobs(which, limit=size, before=before))
        yield page
        if len(page) < size:
            return
        remaining = None if remaining is None else remaining - size
        before = page[-1].id


def run_filtered_operation(
    session: "TenantSession",
    kind: "OperationKind",
    which: "JobFilter",
    options: "OperationOptions",
    flags: BulkFlags,
) -> None:
    """Run a bulk operation on the jobs in `which`. Raises Invalid without a filter or --all."""
    if not which.to_json() and not flags.everything:
        raise Invalid(
            f"Specify which jobs to {kind}",
            hint="Use --where, --state, --definition, --queue, --tag or --all; "
            "--dry-run counts the jobs",
        )
    run_bulk_operation(session, kind, which, options, flags)
