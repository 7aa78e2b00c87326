"""The trigger settings as options, shared by `triggers create` and `triggers edit`."""

from functools import wraps
from typing import Annotated, Any

import typer

from jobforge.cli import completions
from jobforge.cli.options import CommandFunction, PayloadArgument, omit_none, replace_parameter
from jobforge.cli.payload_args import parse_json, parse_payload
from jobforge.cli.time_args import parse_duration, parse_moment
from jobforge.errors import Json

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

_OPTIONS: dict[str, Any] = {
    "payload": PayloadArgument,
    "definition": DefinitionOption,
    "cron": Annotated[
        str | None, typer.Option(metavar="CRON", help="Cron expression: five fields, or @daily.")
    ],
    "event": Annotated[
        str | None, typer.Option(metavar="NAME", help="Event name, or a pattern such as order.*.")
    ],
    "tz": Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: the tenant's."
        ),
    ],
    "catch_up": Annotated[
        str | None,
        typer.Option(metavar="none|last|all", help="What to do about missed runs. Default: last."),
    ],
    "catch_up_limit": Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum runs with --catch-up all. Default: 10."),
    ],
    "overlap": Annotated[
        str | None,
        typer.Option(
            metavar="allow|skip|queue|cancel_running",
            help="What to do if the previous run is still in progress. Default: allow.",
        ),
    ],
    "jitter": Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Maximum random delay of each run. Default: 0."),
    ],
    "starts": Annotated[
        str | None, typer.Option(metavar="TIME", help="Start of the schedule, inclusive.")
    ],
    "ends": Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the schedule, exclusive.")
    ],
    "filter_": Annotated[
        str | None,
        typer.Option("--filter", metavar="JSON", help="List of conditions on the event."),
    ],
    "dedupe_window": Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Deduplication window: duplicate events within it create one job. Default: 5m.",
        ),
    ],
    "dedupe_key": Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Template of the deduplication key. Default: the rendered payload.",
        ),
    ],
    "version": Annotated[
        int | None, typer.Option(metavar="N", help="Version of the definition. Default: newest.")
    ],
    "queue": Annotated[
        str | None, typer.Option(metavar="NAME", help="Queue. Default: the definition's.")
    ],
    "priority": Annotated[
        int | None, typer.Option(metavar="N", help="Priority; higher runs first. Default: 0.")
    ],
}


def with_trigger_settings(command: CommandFunction) -> CommandFunction:
    """Decorate a command: pass it `settings`, the trigger options that were given."""

    @wraps(command)
    def run(**arguments: Any) -> None:  # noqa: ANN401 - options of any type
        options = {name: arguments.pop(name) for name in _OPTIONS}
        command(settings=_parse_settings(**options), **arguments)

    return replace_parameter(run, "settings", _OPTIONS)


def _parse_settings(
    *,
    payload: list[str] | None,
    tz: str | None,
    jitter: str | None,
    starts: str | None,
    ends: str | None,
    filter_: str | None,
    dedupe_window: str | None,
    **others: str | int | None,
) -> dict[str, Json]:
    return omit_none(
        payload=parse_payload(payload) if payload else None,
        timezone=tz,
        jitter_s=_parse_seconds(jitter, "--jitter"),
        starts_at=_moment(starts, "--starts"),
        ends_at=_moment(ends, "--ends"),
        filter=None if filter_ is None else parse_json(filter_, "--filter"),
        dedupe_window_s=_parse_seconds(dedupe_window, "--dedupe-window"),
        **others,
    )


def _parse_seconds(text: str | None, option: str) -> int | None:
    return None if text is None else round(parse_duration(text, option))


def _moment(text: str | None, option: str) -> str | None:
    return None if text is None else parse_moment(text, option).isoformat()
