"""`jobforge defs`: the definitions that were registered, and what operators set over them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.options import AsJson, Payload
from jobforge.cli.payload import parse_payload
from jobforge.cli.way import ApiKey, Engine, ServerUrl, Way, reached
from jobforge.errors import Invalid, Json, NotFound

if TYPE_CHECKING:
    from jobforge.control import DefinitionInfo, DefinitionListing

app = typer.Typer(help="See definitions, pause and override them.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY")]
_PAGE = 200


@app.command("list")
def list_(
    *,
    prefix: Annotated[str | None, typer.Option(help="Only keys that start so.")] = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List definitions by key, with the settings that hold."""
    from jobforge import calls

    listed: list[DefinitionListing] = []
    with reached(Way(database_url, server, api_key)) as engine:
        while True:
            after = listed[-1].key if listed else None
            page = engine.run(calls.list_definitions(prefix=prefix, limit=_PAGE, after=after))
            listed += page
            if len(page) < _PAGE:
                break
    rows = [asdict(each) if as_json else _line(each) for each in listed]
    output.print_rows(rows, as_json=as_json)


@app.command()
def show(
    definition: Annotated[str, typer.Argument(metavar="KEY[@VERSION]")],
    *,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show one version of a definition; without one, that which an enqueue takes."""
    with reached(Way(database_url, server, api_key)) as engine:
        found = _find(engine, definition)
    if as_json:
        output.print_json(asdict(found))
    else:
        output.print_fields(asdict(found))


@app.command()
def schema(
    definition: Annotated[str, typer.Argument(metavar="KEY[@VERSION]")],
    *,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Print the JSON Schema of a definition's parameters."""
    with reached(Way(database_url, server, api_key)) as engine:
        found = _find(engine, definition)
    output.print_json(found.parameters or {})


@app.command()
def pause(
    key: Key,
    *,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Start no job of the definition until it is resumed; what runs goes on."""
    from jobforge import calls

    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.pause_definition(key))
    output.note(f"{key} is paused")


@app.command()
def resume(
    key: Key,
    *,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Start jobs of the definition again."""
    from jobforge import calls

    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.resume_definition(key))
    output.note(f"{key} is resumed")


@app.command()
def override(
    key: Key,
    settings: Payload = None,
    *,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Set over what code registered: `max_running:=4 timeout_s:=60`; `:=null` takes one back."""
    from jobforge import calls

    given = parse_payload(settings or [])
    if not given:
        raise Invalid("give settings such as max_running:=4", field="settings")
    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.override_definition(key, given))


def _find(engine: Engine, text: str) -> "DefinitionInfo":
    from jobforge import calls

    key, _, version = text.partition("@")
    if version and not version.isdecimal():
        raise Invalid(f"{text!r}: a version is a number", field="version")
    try:
        return engine.run(calls.get_definition(key, version=int(version) if version else None))
    except NotFound as error:
        raise NotFound(error.message, hint="jobforge defs list") from error


def _line(listed: "DefinitionListing") -> dict[str, Json]:
    return {
        "definition": f"{listed.key}@{listed.version}",
        "queue": listed.queue,
        "timeout": f"{listed.timeout_s} s",
        "attempts": listed.max_attempts,
        "max_running": listed.max_running,
        "state": _state(listed),
        "description": listed.description,
    }


def _state(listed: "DefinitionListing") -> str:
    if not listed.is_active:
        return "inactive"
    return "paused" if listed.paused_at else "active"
