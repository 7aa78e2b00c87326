"""`jobforge config`: the settings that hold here, and where they come from."""

from dataclasses import fields
from typing import Annotated

import typer

from jobforge import config
from jobforge.cli import output
from jobforge.cli.options import AsJson
from jobforge.errors import Json

app = typer.Typer(help="The settings that hold here.", no_args_is_help=True)


@app.command()
def show(
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Tell what set each: a variable, a file, the default.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting. Secrets are hidden."""
    loaded = config.load()
    set_by = config.origins()
    rows = []
    for each in fields(loaded):
        row: dict[str, Json] = {"name": each.name, "value": _shown(each.name, loaded)}
        if origin or as_json:
            row["origin"] = set_by.get(each.name, "default")
        rows.append(row)
    output.print_rows(rows, as_json=as_json)


def _shown(name: str, loaded: config.Config) -> Json:
    value = getattr(loaded, name)
    if value in (None, (), {}):
        return None
    if isinstance(value, str) and config.is_secret(name):
        return config.masked(value) if "://" in value else "***"
    return list(value) if isinstance(value, tuple) else value
