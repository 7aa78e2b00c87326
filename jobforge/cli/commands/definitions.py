"""`jobforge definitions`: registered definitions and the settings that operators override."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import completions, output
from jobforge.cli.engine import CliEngine, with_engine
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson, PayloadArgument
from jobforge.cli.payload_args import parse_payload
from jobforge.errors import Invalid, Json, NotFound

if TYPE_CHECKING:
    from jobforge.types.definitions import DefinitionInfo, DefinitionListing

app = typer.Typer(help="List, pause and override definitions.", no_args_is_help=True)

DefinitionKeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        autocompletion=completions.complete_definitions,
        help="Key of the definition.",
    ),
]
VersionedKeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY[@VERSION]",
        autocompletion=completions.complete_definitions,
        help="Key of the definition. Default version: the one that new jobs use.",
    ),
]
_PAGE = 200


@app.command("list")
@with_engine
@with_listing_format
def list_(
    engine: CliEngine,
    form: ListingFormat,
    *,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Prefix of the keys to list.")
    ] = None,
) -> None:
    """List definitions by key with their effective settings."""
    from jobforge import calls
    from jobforge.types.definitions import DefinitionListing

    listed: list[DefinitionListing] = []
    while True:
        after = listed[-1].key if listed else None
        page = engine.run(calls.list_definitions(prefix=prefix, limit=_PAGE, after=after))
        listed += page
        if len(page) < _PAGE:
            break
    print_listing(listed, DefinitionListing, _to_row, form=form)


@app.command()
@with_engine
def show(
    engine: CliEngine,
    definition: VersionedKeyArgument,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a definition."""
    found = _find(engine, definition)
    output.print_record(asdict(found), as_json=as_json)


@app.command()
@with_engine
def schema(
    engine: CliEngine,
    definition: VersionedKeyArgument,
) -> None:
    """Print the JSON Schema of a definition's parameters."""
    found = _find(engine, definition)
    output.print_json(found.parameters or {})


@app.command()
@with_engine
def pause(engine: CliEngine, definition: DefinitionKeyArgument) -> None:
    """Pause a definition: its jobs do not start. Running jobs continue."""
    from jobforge import calls

    engine.run(calls.pause_definition(definition))
    output.note(f"Definition {definition} paused")


@app.command()
@with_engine
def resume(engine: CliEngine, definition: DefinitionKeyArgument) -> None:
    """Resume a definition."""
    from jobforge import calls

    engine.run(calls.resume_definition(definition))
    output.note(f"Definition {definition} resumed")


@app.command()
@with_engine
def override(
    engine: CliEngine, definition: DefinitionKeyArgument, settings: PayloadArgument = None
) -> None:
    """Override settings registered by code.

    For example: max_running:=4 timeout_s:=60. Set a value to null to remove its override.
    """
    from jobforge import calls

    given = parse_payload(settings or [])
    if not given:
        hint = "Use name:=value, such as max_running:=4"
        raise Invalid("No settings specified", field="settings", hint=hint)
    engine.run(calls.override_definition(definition, given))
    output.note(f"Definition {definition} updated; overrides remain when code registers it again")


def _find(engine: CliEngine, text: str) -> "DefinitionInfo":
    from jobforge import calls

    key, _, version = text.partition("@")
    if version and not version.isdecimal():
        raise Invalid(f"Invalid version in {text!r}: must be a number", field="version")
    try:
        return engine.run(calls.get_definition(key, version=int(version) if version else None))
    except NotFound as error:
        raise NotFound(error.message, hint=completions.suggest_definition(engine, text)) from error


def _to_row(listed: "DefinitionListing") -> dict[str, Json]:
    return {
        "definition": f"{listed.key}@{listed.version}",
        "queue": listed.queue,
        "timeout": f"{listed.timeout_s} s",
        "attempts": listed.max_attempts,
        "max_running": listed.max_running,
        "state": _format_state(listed),
        "description": listed.description,
    }


def _format_state(listed: "DefinitionListing") -> str:
    if not listed.is_active:
        return "inactive"
    return "paused" if listed.paused_at else "active"
