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
        "--definition", "-d", metavar="KEY", autocompletion=completions.complete_definitions
    ),
]

_OPTIONS: dict[str, Any] = {
    "payload": PayloadArgument,
    "definition": DefinitionOption,
    "cron": Annotated[
        str | None, typer.Option(metavar="CRON", help="Five fields, or @daily and such.")
    ],
    "event": Annotated[
        str | None, typer.Option(metavar="NAME", help="An event, or order.* for all such.")
    ],
    "tz": Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Such as Europe/Berlin; else the tenant's."),
    ],
    "catch_up": Annotated[
        str | None, typer.Option(metavar="none|last|all", help="Of times that were missed; last.")
    ],
    "catch_up_limit": Annotated[
        int | None, typer.Option(metavar="N", help="With all: how many; 10.")
    ],
    "overlap": Annotated[
        str | None,
        typer.Option(
            metavar="allow|skip|queue|cancel_running",
            help="While a job of the time before is not finished; allow.",
        ),
    ],
    "jitter": Annotated[str | None, typer.Option(metavar="DURATION", help="Start within it; 0.")],
    "starts": Annotated[str | None, typer.Option(metavar="TIME", help="Not before it.")],
    "ends": Annotated[str | None, typer.Option(metavar="TIME", help="Not from it on.")],
    "filter_": Annotated[
        str | None,
        typer.Option("--filter", metavar="JSON", help="Conditions on the event: a list."),
    ],
    "dedupe_window": Annotated[
        str | None, typer.Option(metavar="DURATION", help="Of events alike, one in it; 5m.")
    ],
    "dedupe_key": Annotated[
        str | None, typer.Option(metavar="TEMPLATE", help="What makes events alike.")
    ],
    "version": Annotated[int | None, typer.Option(help="Of the definition; else the newest.")],
    "queue": Annotated[str | None, typer.Option(help="Else the definition's.")],
    "priority": Annotated[int | None, typer.Option(help="Higher runs first; 0.")],
}


def with_trigger_settings(command: CommandFunction) -> CommandFunction:
    """Decorate a command: pass it `settings`, the trigger options that were given."""

    @wraps(command)
    def run(**said: Any) -> None:  # noqa: ANN401 - options of any type
        options = {name: said.pop(name) for name in _OPTIONS}
        command(settings=_parse_settings(**options), **said)

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
