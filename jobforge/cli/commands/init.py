"""`jobforge init`: create a small example project."""

from pathlib import Path
from typing import Annotated

import typer

from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.dev_setup import find_program
from jobforge.errors import ConfigError, Conflict

app = CommandGroup()

_APP = '''\
"""The jobs of this project. `jobforge dev` runs them and restarts when this file changes."""

from jobforge import Context, JobForge, Retry

jf = JobForge()  # connects to JOBFORGE_DATABASE_URL or `jobforge dev`


@jf.job(retry=Retry(max_attempts=5), timeout=30)
def greet(ctx: Context, name: str) -> str:
    """Return a greeting."""
    ctx.log.info("greeting", name=name)
    return f"Hello, {name}!"
'''
_SETTINGS = """\
# Settings of this folder; `jobforge config show --origin` lists all of them.
app = "app.py"
tenant = "acme"  # tenant of the commands in this folder; `jobforge dev` creates it
"""
_TEST = '''\
"""Run with: pytest. Each test has a separate Postgres database."""

from app import greet, jf

from jobforge.testing import Kit


def test_greet_returns_a_greeting(jf_test: Kit) -> None:
    jf_test.use(jf)
    jf_test.tenant("acme")
    greet.using(tenant="acme").enqueue(name="Ada")
    [attempt] = jf_test.drain(raise_errors=True).jobs
    assert attempt.result == "Hello, Ada!"
'''
_FILES = {
    "app.py": _APP,
    "jobforge.toml": _SETTINGS,
    "test_app.py": _TEST,
    ".gitignore": ".jobforge/\n",
}


@app.command()
def init(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of the project; created if it is missing."),
    ] = Path(),
) -> None:
    """Create a small project: an app, its settings and a test. It overwrites no file."""
    existing = [name for name in _FILES if (folder / name).exists()]
    if existing:
        raise Conflict(
            f"Files already exist in {folder}: {', '.join(existing)}; nothing was written",
            hint="Use a new folder: jobforge init NAME",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot write to {folder}: {error.strerror}") from error
    output.print_lines(folder / name for name in _FILES)
    output.note(_format_next_step(folder))


def _format_next_step(folder: Path) -> str:
    change_folder = "" if folder == Path() else f"cd {folder} && "
    return f"Next: {change_folder}{find_program()} dev"
