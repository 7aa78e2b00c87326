"""Options that several commands share, checks of their values, and settings of Typer."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from jobforge.errors import Invalid

# Importing Rich would double the start time. --debug shows tracebacks instead.
TYPER_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "add_completion": False,  # replaced by the `completion` command
}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="Omit the header line of the table.")]
FieldNames = Annotated[
    str | None,
    typer.Option("--fields", metavar="A,B", help="Fields to print, named as in the HTTP API."),
]
LimitOption = Annotated[
    int, typer.Option(min=1, max=200, metavar="N", help="Maximum number of results.")
]
AppArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="APP", help="App: app.py, app.py:name or package.module. Default: app.py."
    ),
]
PayloadArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=TEXT|NAME:=JSON|@FILE",
        help="Strings (=), JSON values (:=), or a file with a JSON object (@- reads stdin).",
    ),
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for the operation and show its progress.")
]
ReasonOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Reason, stored with the jobs.")
]
NewAttemptsOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Number of new attempts per job (default: the job's own number)."
    ),
]
MaxStartsOption = Annotated[
    str | None, typer.Option(metavar="N/PERIOD", help="Maximum starts: 10/s, 100/m or 5/30s.")
]
BurstOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Maximum burst. Default: the N of --rate.")
]
LogFormatOption = Annotated[
    str | None,
    typer.Option(metavar="json|text", help="Log format. Default: text on a terminal, else json."),
]
LogLevelOption = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="Log level: debug, info, warning, error or critical."),
]

# Makes a process drain when its stdin closes, so that it never outlives its parent.
UNTIL_STDIN_CLOSES = "--until-stdin-closes"
INTRODUCE = "--introduce"
MetricsPort = Annotated[
    str | None,
    typer.Option(
        metavar="PORT", help="Port for Prometheus metrics (see metrics_host). Default: none."
    ),
]


def check_choice(option: str, text: str, words: Iterable[str]) -> str:
    """Return the text if it is one of the words; raise Invalid, listing them, if it is not."""
    known = list(words)
    if text not in known:
        raise Invalid(f"--{option} must be one of {', '.join(known)}, not {text!r}", field=option)
    return text


def suggest_similar(word: str, known: Iterable[str]) -> str | None:
    """Return a "did you mean" question if one of the known words is similar."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), list(known), n=1)
    return f"Did you mean {near[0]}?" if near else None


def omit_none(**settings: Any) -> dict[str, Any]:  # noqa: ANN401 - settings of any type
    """Return the settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}
