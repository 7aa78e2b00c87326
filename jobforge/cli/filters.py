"""The job filter of listings and bulk operations."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jobforge import calls
from jobforge.cli.bulk import run_bulk_operation
from jobforge.cli.context import CommandContext, TenantSession
from jobforge.cli.filter_query import parse_query
from jobforge.cli.listing_output import read_pages
from jobforge.cli.options import check_choice
from jobforge.errors import Invalid
from jobforge.types.jobs import JobFilter, JobListing, State
from jobforge.types.operations import OperationKind, OperationOptions


def parse_filter(*, where: str | None, state: list[str] | None, **options: str | None) -> JobFilter:
    """Return the filter of the filter options; an empty option counts as omitted."""
    states = (*State, "failed")
    for each in state or ():
        check_choice("state", each, states)
    given = {name: value or None for name, value in {"state": state, **options}.items()}
    return narrow_filter(JobFilter(**parse_query(where, states) if where else {}), given)


def narrow_filter(which: JobFilter, options: Mapping[str, Any]) -> JobFilter:
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
    session: TenantSession, which: JobFilter, limit: int | None
) -> Iterator[list[JobListing]]:
    """Yield pages of at most `limit` jobs in total, newest first; all jobs if it is None."""

    def read(size: int, last: JobListing | None) -> list[JobListing]:
        return session.run(calls.list_jobs(which, limit=size, before=last.id if last else None))

    return read_pages(read, limit)


def run_filtered_operation(
    context: CommandContext, kind: OperationKind, options: OperationOptions, *, everything: bool
) -> None:
    """Run a bulk operation on the filtered jobs. Raises Invalid without a filter or --all."""
    which = context.job_filter
    if not which.to_json() and not everything:
        raise Invalid(
            f"Specify which jobs to {kind}",
            hint="Use --where, --state, --definition, --queue, --tag or --all; "
            "--dry-run counts the jobs",
        )
    run_bulk_operation(context, kind, which, options)
