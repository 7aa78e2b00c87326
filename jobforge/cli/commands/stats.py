"""`jobforge stats`: show attempt counts, wait and run times, and usage per tenant."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.listing_output import print_listing
from jobforge.cli.shared_options import ENGINE, LISTING, TENANT_OR_ALL
from jobforge.cli.time_args import parse_duration, parse_time_or_age
from jobforge.errors import Invalid, Json
from jobforge.types.statistics import Statistic, Usage, usage_as_csv

app = CommandGroup(ENGINE)

SinceOption = Annotated[
    str, typer.Option(metavar="AGE|TIME", help="Start: an age such as 1h or 7d, or a time.")
]
UntilOption = Annotated[
    str | None, typer.Option(metavar="AGE|TIME", help="End: an age or a time. Default: now.")
]
_STEPS_S = (60, 300, 900, 3600, 21_600, 86_400)
_LINES = 30  # approximate rows of a table with the default step


@app.callback(options=LISTING + TENANT_OR_ALL)
def stats(
    context: CommandContext,
    *,
    since: SinceOption = "1h",
    until: UntilOption = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Period of each row: 1m, 1h, 1d. Default: about 30 rows."
        ),
    ] = None,
    definition: Annotated[
        str | None, typer.Option(metavar="KEY", help="Definition to match.")
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Queue to match.")] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="definition|queue", help="Group rows by definition or queue."),
    ] = None,
) -> None:
    """Show attempt statistics for one tenant or across all tenants."""
    if context.invoked_subcommand is not None:
        return
    start, end = parse_time_or_age(since, "--since"), _parse_until(until)
    call = calls.get_statistics(
        start,
        end,
        step_s=_choose_step(step, start, end),
        definition=definition,
        queue=queue,
        by=_parse_by(by),
        tenant_id=context.tenant_id_or_all,
    )
    print_listing([context.engine.run(call)], Statistic, _to_row, form=context.listing_format)


@app.command(options=LISTING + ENGINE)
def usage(
    context: CommandContext,
    *,
    since: SinceOption = "1d",
    until: UntilOption = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show each tenant's usage: attempts, run and CPU time, memory. For operators."""
    call = calls.meter_tenants(parse_time_or_age(since, "--since"), _parse_until(until))
    used = context.engine.run(call)
    if as_csv:
        typer.echo(usage_as_csv(used), nl=False)
        return
    print_listing([used], Usage, form=context.listing_format)


def _parse_until(text: str | None) -> datetime | None:
    return None if text is None else parse_time_or_age(text, "--until")


def _choose_step(text: str | None, start: datetime | None, end: datetime | None) -> int:
    if text is not None:
        return int(parse_duration(text, "--step"))
    until = end or datetime.now(UTC)
    wanted = (until - start).total_seconds() / _LINES if start else 0
    return next((step for step in _STEPS_S if step >= wanted), _STEPS_S[-1])


def _parse_by(text: str | None) -> Literal["definition", "queue"] | None:
    match text:
        case None | "definition" | "queue":
            return text
        case _:
            raise Invalid(f"--by must be definition or queue, not {text!r}")


def _to_row(found: Statistic) -> dict[str, Json]:
    return {
        "at": found.at,
        **({"definition": found.definition} if found.queue is None else {"queue": found.queue}),
        "succeeded": found.succeeded,
        "failed": found.failed,
        "dead": found.dead,
        "canceled": found.canceled,
        "released": found.released,
        "wait_p50": _format_ms(found.wait_p50_ms),
        "wait_p95": _format_ms(found.wait_p95_ms),
        "run_p50": _format_ms(found.run_p50_ms),
        "run_p95": _format_ms(found.run_p95_ms),
    }


def _format_ms(ms: float | None) -> str | None:
    if ms is None:
        return None
    return f"{ms:.3g} ms" if ms < 1000 else output.format_duration(timedelta(milliseconds=ms))
