"""`jobforge stats`: how many attempts ended, how, how long they took, and who used what."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.engine import ApiKey, Engine, ServerUrl, Way, on_engine, reached
from jobforge.cli.tables import Form, in_form, print_listing
from jobforge.cli.tenant_session import TenantOrAll, find_tenant_or_all
from jobforge.cli.time_args import parse_duration, parse_past
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.types.statistics import Statistic

app = typer.Typer(help="Add up attempts, by time, definition or tenant.")

Since = Annotated[str, typer.Option(metavar="SPAN|TIME", help="From then on: 1h, 7d, or a time.")]
Until = Annotated[
    str | None, typer.Option(metavar="SPAN|TIME", help="Up to then: 1h ago, or a time; else now.")
]
_STEPS_S = (60, 300, 900, 3600, 21_600, 86_400)
_LINES = 30  # of a table, about


@app.callback(invoke_without_command=True)
@in_form
def stats(
    context: typer.Context,
    form: Form,
    *,
    since: Since = "1h",
    until: Until = None,
    step: Annotated[
        str | None, typer.Option(metavar="SPAN", help="One line for each: 1m, 1h, 1d.")
    ] = None,
    definition: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    queue: Annotated[str | None, typer.Option(metavar="QUEUE")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="definition|queue", help="A line for each of them.")
    ] = None,
    tenant: TenantOrAll = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show a tenant's statistics; for operators who name none, those of all together."""
    if context.invoked_subcommand is not None:
        return
    from jobforge import calls
    from jobforge.types.statistics import Statistic

    begin, end = parse_past(since, "--since"), _until(until)
    with reached(Way(database_url, server, api_key)) as engine:
        call = calls.get_statistics(
            begin,
            end,
            step_s=_step(step, begin, end),
            definition=definition,
            queue=queue,
            by=_by(by),
            tenant_id=find_tenant_or_all(engine, tenant),
        )
        found = engine.run(call)
    print_listing(found, Statistic, _line, form=form)


@app.command()
@on_engine
@in_form
def usage(
    engine: Engine,
    form: Form,
    *,
    since: Since = "1d",
    until: Until = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show what each tenant used: attempts, run and CPU time, memory. For operators."""
    from jobforge import calls
    from jobforge.types.statistics import Usage, usage_as_csv

    call = calls.meter_tenants(parse_past(since, "--since"), _until(until))
    used = engine.run(call)
    if as_csv:
        typer.echo(usage_as_csv(used), nl=False)
        return
    print_listing(used, Usage, form=form)


def _until(text: str | None) -> datetime | None:
    return None if text is None else parse_past(text, "--until")


def _step(text: str | None, begin: datetime | None, end: datetime | None) -> int:
    if text is not None:
        return int(parse_duration(text, "--step"))
    until = end or datetime.now(UTC)
    wanted = (until - begin).total_seconds() / _LINES if begin else 0
    return next((step for step in _STEPS_S if step >= wanted), _STEPS_S[-1])


def _by(text: str | None) -> Literal["definition", "queue"] | None:
    match text:
        case None | "definition" | "queue":
            return text
        case _:
            raise Invalid(f"--by is definition or queue, not {text!r}")


def _line(found: "Statistic") -> dict[str, Json]:
    return {
        "at": found.at,
        **({"definition": found.definition} if found.queue is None else {"queue": found.queue}),
        "succeeded": found.succeeded,
        "failed": found.failed,
        "died": found.died,
        "canceled": found.canceled,
        "handed_back": found.handed_back,
        "wait_p50": _time(found.wait_p50_ms),
        "wait_p95": _time(found.wait_p95_ms),
        "run_p50": _time(found.run_p50_ms),
        "run_p95": _time(found.run_p95_ms),
    }


def _time(ms: float | None) -> str | None:
    if ms is None:
        return None
    return f"{ms:.3g} ms" if ms < 1000 else output.span(timedelta(milliseconds=ms))
