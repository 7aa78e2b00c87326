"""Options that several commands share, and helpers to define and check options."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from jobforge.errors import Invalid

CommandFunction = Callable[..., None]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only IDs.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="Omit the header line of the table.")]
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

# Makes a process drain when its stdin closes, so that it never outlives its parent.
UNTIL_STDIN_CLOSES = "--until-stdin-closes"
INTRODUCE = "--introduce"
MetricsPort = Annotated[
    str | None,
    typer.Option(
        metavar="PORT", help="Port for Prometheus metrics (see metrics_host). Default: none."
    ),
]


def replace_parameter(
    run: CommandFunction, parameter: str, options: Mapping[str, Any]
) -> CommandFunction:
    """Replace one parameter in the signature that Typer reads of `run` by these options."""
    own = inspect.signature(run).parameters.values()
    parameters = [each for each in own if each.name != parameter] + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in options.items()
    ]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # typer reads it
    return run


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
