"""`jobforge version`: print the version."""

import typer

from jobforge import __version__
from jobforge.cli.command_group import CommandGroup

app = CommandGroup()


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"jobforge {__version__}")
