"""`jobforge definitions`: registered definitions and the settings that operators override."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import completions, output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import CliEngine
from jobforge.cli.listing_output import print_listing, read_pages
from jobforge.cli.options import AsJson, PayloadArgument
from jobforge.cli.payload_args import parse_payload
from jobforge.cli.shared_options import ENGINE, LISTING
from jobforge.errors import Invalid, Json, NotFound
from jobforge.types.definitions import DefinitionInfo, DefinitionListing

app = CommandGroup(ENGINE)

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


@app.command("list", options=LISTING + ENGINE)
def list_(
    context: CommandContext,
    *,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Prefix of the keys to list.")
    ] = None,
) -> None:
    """List definitions by key with their effective settings."""

    def read(size: int, last: DefinitionListing | None) -> list[DefinitionListing]:
        call = calls.list_definitions(prefix=prefix, limit=size, after=last.key if last else None)
        return context.engine.run(call)

    print_listing(read_pages(read), DefinitionListing, _to_row, form=context.listing_format)


@app.command()
def show(
    context: CommandContext,
    definition: VersionedKeyArgument,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a definition."""
    found = _find(context.engine, definition)
    output.print_record(asdict(found), as_json=as_json)


@app.command()
def schema(
    context: CommandContext,
    definition: VersionedKeyArgument,
) -> None:
    """Print the JSON Schema of a definition's parameters."""
    found = _find(context.engine, definition)
    output.print_json(found.parameters or {})


@app.command()
def pause(context: CommandContext, definition: DefinitionKeyArgument) -> None:
    """Pause a definition: its jobs do not start. Running jobs continue."""
    context.engine.run(calls.pause_definition(definition))
    output.note(f"Definition {definition} paused")


@app.command()
def resume(context: CommandContext, definition: DefinitionKeyArgument) -> None:
    """Resume a definition."""
    context.engine.run(calls.resume_definition(definition))
    output.note(f"Definition {definition} resumed")


@app.command()
def override(
    context: CommandContext, definition: DefinitionKeyArgument, settings: PayloadArgument = None
) -> None:
    """Override settings registered by code.

    For example: max_running:=4 timeout_s:=60. Set a value to null to remove its override.
    """
    given = parse_payload(settings or [])
    if not given:
        hint = "Use name:=value, such as max_running:=4"
        raise Invalid("No settings specified", field="settings", hint=hint)
    context.engine.run(calls.override_definition(definition, given))
    output.note(f"Definition {definition} updated; overrides remain when code registers it again")


def _find(engine: CliEngine, text: str) -> DefinitionInfo:
    key, _, version = text.partition("@")
    if version and not version.isdecimal():
        raise Invalid(f"Invalid version in {text!r}: must be a number", field="version")
    try:
        return engine.run(calls.get_definition(key, version=int(version) if version else None))
    except NotFound as error:
        raise NotFound(error.message, hint=completions.suggest_definition(engine, text)) from error


def _to_row(listed: DefinitionListing) -> dict[str, Json]:
    return {
        "definition": f"{listed.key}@{listed.version}",
        "queue": listed.queue,
        "timeout": f"{listed.timeout_s} s",
        "attempts": listed.max_attempts,
        "max_running": listed.max_running,
        "state": _format_state(listed),
        "description": listed.description,
    }


def _format_state(listed: DefinitionListing) -> str:
    if not listed.is_active:
        return "inactive"
    return "paused" if listed.paused_at else "active"
