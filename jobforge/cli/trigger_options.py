"""The trigger settings as options, shared by `triggers create` and `triggers edit`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jobforge.cli import completions
from jobforge.cli.options import PayloadArgument, omit_none
from jobforge.cli.payload_args import parse_json, parse_payload
from jobforge.cli.time_args import parse_duration, parse_moment
from jobforge.errors import Invalid, Json
from jobforge.scheduler.interval import write_interval

DefinitionOption = Annotated[
    str | None,
    typer.Option(
        "--definition",
        "-d",
        metavar="KEY",
        autocompletion=completions.complete_definitions,
        help="Definition of the jobs.",
    ),
]

# Options that are settings of the same name and type.
_UNCHANGED = (
    *("definition", "event", "catch_up", "catch_up_limit", "overlap", "dedupe_key"),
    *("version", "queue", "priority"),
)


def trigger_options(
    payload: PayloadArgument = None,
    *,
    definition: DefinitionOption = None,
    cron: Annotated[
        str | None, typer.Option(metavar="CRON", help="Cron expression: five fields, or @daily.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Interval of the schedule, such as 30s."),
    ] = None,
    event: Annotated[
        str | None, typer.Option(metavar="NAME", help="Event name, or a pattern such as order.*.")
    ] = None,
    tz: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: the tenant's."
        ),
    ] = None,
    catch_up: Annotated[
        str | None,
        typer.Option(metavar="none|last|all", help="What to do about missed runs. Default: last."),
    ] = None,
    catch_up_limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum runs with --catch-up all. Default: 10."),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="allow|skip|queue|cancel_running",
            help="What to do if the previous run is still in progress. Default: allow.",
        ),
    ] = None,
    jitter: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Maximum random delay of each run. Default: 0."),
    ] = None,
    starts: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start of the schedule, inclusive.")
    ] = None,
    ends: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the schedule, exclusive.")
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", metavar="JSON", help="List of conditions on the event."),
    ] = None,
    dedupe_window: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Deduplication window: duplicate events within it create one job. Default: 5m.",
        ),
    ] = None,
    dedupe_key: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Template of the deduplication key. Default: the rendered payload.",
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="Version of the definition. Default: newest.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Queue. Default: the definition's.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Priority; higher runs first. Default: 0.")
    ] = None,
) -> None:
    """Set the settings of a trigger."""


def parse_settings(options: Mapping[str, Any]) -> dict[str, Json]:
    """Return the settings of the trigger options that were given."""
    payload, filter_ = options["payload"], options["filter_"]
    return omit_none(
        cron=_read_cron(options["cron"], options["every"]),
        payload=parse_payload(payload) if payload else None,
        timezone=options["tz"],
        jitter_s=_parse_seconds(options["jitter"], "--jitter"),
        starts_at=_moment(options["starts"], "--starts"),
        ends_at=_moment(options["ends"], "--ends"),
        filter=None if filter_ is None else parse_json(filter_, "--filter"),
        dedupe_window_s=_parse_seconds(options["dedupe_window"], "--dedupe-window"),
        **{name: options[name] for name in _UNCHANGED},
    )


def _read_cron(cron: str | None, every: str | None) -> str | None:
    if every is None:
        return cron
    if cron is not None:
        raise Invalid("--cron and --every cannot be used together", field="every")
    return write_interval(parse_duration(every, "--every"), field="--every")


def _parse_seconds(text: str | None, option: str) -> int | None:
    return None if text is None else round(parse_duration(text, option))


def _moment(text: str | None, option: str) -> str | None:
    return None if text is None else parse_moment(text, option).isoformat()
