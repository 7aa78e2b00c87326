"""`jobforge db`: the schema in the database."""

from pathlib import Path
from typing import Annotated

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl, connect, find_url
from jobforge.cli.options import AsJson
from jobforge.errors import ConfigError

app = typer.Typer(help="Install, upgrade and check the schema.", no_args_is_help=True)


@app.command()
def migrate(
    *,
    database_url: DatabaseUrl = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what is due; change nothing.")
    ] = False,
    lock_timeout: Annotated[
        str, typer.Option(help="How long to wait for a table that somebody holds.")
    ] = "5s",
    as_json: AsJson = False,
) -> None:
    """Bring the schema up to date, all or nothing."""
    from jobforge import migrate as migrations

    with connect(database_url) as conn:
        if dry_run:
            names = [script.name for script in migrations.plan(conn)]
        else:
            with output.progress("migrating") as tell:
                names = migrations.migrate(conn, lock_timeout=lock_timeout, tell=tell)
    output.print_rows([{"name": name} for name in names], as_json=as_json)
    if not names:
        output.note("nothing is due")
    elif dry_run:
        output.note(f"{len(names)} files are due; nothing was changed")
    else:
        output.note(f"{len(names)} files applied")


@app.command()
def status(*, database_url: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """List every file of the schema and whether it is applied."""
    from jobforge import migrate as migrations

    with connect(database_url) as conn:
        files = migrations.status(conn)
    rows = [
        {"name": file.name, "state": file.state.value, "applied_at": file.applied_at}
        for file in files
    ]
    output.print_rows(rows, as_json=as_json)


@app.command()
def check(*, database_url: DatabaseUrl = None) -> None:
    """Fail when migrations are due or were edited after they ran."""
    from jobforge import migrate as migrations

    with connect(database_url) as conn:
        migrations.check(conn)
    output.note("the schema is up to date")


@app.command()
def sql(
    *,
    supabase: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write Supabase migration files into this folder."),
    ] = None,
    rls_test: Annotated[
        bool, typer.Option("--rls-test", help="Print a psql script that proves tenant isolation.")
    ] = False,
) -> None:
    """Print the schema as one file for psql."""
    from jobforge import schema

    if supabase and rls_test:
        raise ConfigError("--supabase and --rls-test exclude each other")
    if supabase:
        written = schema.write_supabase(supabase)
        output.print_rows([{"path": str(path)} for path in written], as_json=False)
        output.note(f"{len(written)} files written to {supabase}")
    elif rls_test:
        typer.echo((schema.SQL / "rls_test.sql").read_text(encoding="utf-8"), nl=False)
    else:
        typer.echo(schema.render_sql(), nl=False)


@app.command()
def url(*, database_url: DatabaseUrl = None) -> None:
    """Print the URL of the database, password included. For use by other programs."""
    typer.echo(find_url(database_url))
