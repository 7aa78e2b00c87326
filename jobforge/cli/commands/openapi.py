"""`jobforge openapi`: print the OpenAPI document."""

import typer


def openapi() -> None:
    """Print the OpenAPI document of the HTTP API."""
    import json

    from jobforge.api import create_app
    from jobforge.config import Config

    typer.echo(json.dumps(create_app(Config()).openapi(), indent=2, ensure_ascii=False))
