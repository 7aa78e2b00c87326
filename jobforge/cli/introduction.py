"""What `jobforge dev` says of an app: its jobs, and commands to try them with."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from jobforge.cli.program import program
from jobforge.errors import Json

if TYPE_CHECKING:
    from jobforge.sdk.definition import Definition

_SAMPLES = {"integer": ":=1", "number": ":=1.5", "boolean": ":=true", "array": ":=[]"}


def print_introduction(definitions: "Iterable[Definition[..., Any]]") -> None:
    own = program()
    typer.echo("\n  Jobs of the app, and how to run them from another terminal:")
    for definition in definitions:
        if not definition.settings.key.endswith(":hooks"):
            typer.echo(f"    {own} enqueue {sample(definition)} --tenant acme --wait")
    typer.echo(f"    {own} jobs list --tenant acme\n")


def sample(definition: "Definition[..., Any]") -> str:
    """The key, and a value for each parameter that has to be given."""
    schema = definition.registration().get("parameters") or {}
    properties: dict[str, Json] = schema.get("properties", {})
    required = [name for name in properties if name in schema.get("required", ())]
    return " ".join(
        [definition.settings.key, *(_value(name, properties[name]) for name in required)]
    )


def _value(name: str, schema: dict[str, Json]) -> str:
    kind = schema.get("type")
    if kind == "object":
        return f"{name}:='{{}}'"
    return f"{name}{_SAMPLES.get(str(kind), '=' + name.upper())}"
