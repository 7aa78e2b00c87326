"""`jobforge openapi`: print the OpenAPI document."""

import json

import typer

from jobforge.cli.command_group import CommandGroup
from jobforge.config import Config

app = CommandGroup()


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of the HTTP API."""
    from jobforge.api import create_app

    typer.echo(json.dumps(create_app(Config()).openapi(), indent=2, ensure_ascii=False))
