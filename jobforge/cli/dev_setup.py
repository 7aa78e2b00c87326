"""Set up the `jobforge dev` database (schema, tenant, key) and print how to run an app's jobs."""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import typer

from jobforge.errors import Json, NotFound

if TYPE_CHECKING:
    from jobforge.db.connection import Connection
    from jobforge.sdk.definition import Definition
    from jobforge.security.api_keys import PlaintextApiKey

DEV_TENANT = "acme"


def prepare_database(conn: "Connection") -> int:
    """Migrate the schema and create the tenant. Return the number of schema files applied."""
    from jobforge import calls, db
    from jobforge.db.migrate import migrate

    applied = len(migrate(conn))
    try:
        db.run(conn, calls.find_tenant(DEV_TENANT))
    except NotFound:
        db.run(conn, calls.put_tenant(uuid4(), {"slug": DEV_TENANT}))
    return applied


def find_or_create_key(path: Path, conn: "Connection") -> "PlaintextApiKey":
    """Return the super admin key in the file, or create one if it is missing or not live.

    A key that the database does not know is registered again, as after a reset.
    """
    from jobforge import calls, db
    from jobforge.security.api_keys import generate_api_key, parse_api_key
    from jobforge.types.api_keys import Role

    kept = parse_api_key(path.read_text(encoding="utf-8").strip()) if path.exists() else None
    if kept is not None:
        found = db.run(conn, calls.find_api_key(kept.lookup))
        if found is not None and found.is_live and kept.matches_hash(found.hash):
            return kept
        if found is not None:
            kept = None
    key = kept or generate_api_key()
    call = calls.create_api_key("dev", Role.SUPER_ADMIN, lookup=key.lookup, hash=key.hash)
    db.run(conn, call)
    path.touch(mode=0o600)
    path.write_text(key.text + "\n", encoding="utf-8")
    return key


_SAMPLES = {"integer": ":=1", "number": ":=1.5", "boolean": ":=true", "array": ":=[]"}


def print_introduction(definitions: Iterable["Definition[..., Any]"]) -> None:
    own = find_program()
    typer.echo("\n  Run the app's jobs from another terminal:")
    for definition in definitions:
        if not definition.settings.key.endswith(":hooks"):
            typer.echo(
                f"    {own} enqueue {format_sample_arguments(definition)} --tenant acme --wait"
            )
    typer.echo(f"    {own} jobs list --tenant acme\n")


def format_sample_arguments(definition: "Definition[..., Any]") -> str:
    """Return the definition's key with a sample value for each required parameter."""
    schema = definition.registration().get("parameters") or {}
    properties: dict[str, Json] = schema.get("properties", {})
    required = [name for name in properties if name in schema.get("required", ())]
    return " ".join(
        [definition.settings.key, *(_sample_value(name, properties[name]) for name in required)]
    )


def _sample_value(name: str, schema: dict[str, Json]) -> str:
    kind = schema.get("type")
    if kind == "object":
        return f"{name}:='{{}}'"
    return f"{name}{_SAMPLES.get(str(kind), '=' + name.upper())}"


_NAME = "jobforge"


def find_program() -> str:
    """Return `jobforge` if it is on the PATH, or the path of the program."""
    own = Path(sys.executable).with_name(_NAME)
    if not own.exists() or shutil.which(_NAME) == str(own):
        return _NAME
    return str(own.relative_to(Path.cwd())) if own.is_relative_to(Path.cwd()) else str(own)
