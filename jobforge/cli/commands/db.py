"""`jobforge db`: install, upgrade and check the schema."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import psycopg
import typer

from jobforge.cli import output
from jobforge.cli.bulk import confirm
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.commands import bound_logins
from jobforge.cli.context import CommandContext
from jobforge.cli.dev_setup import find_or_create_key, prepare_database
from jobforge.cli.findings import print_findings
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson, Yes
from jobforge.cli.shared_options import DATABASE, LISTING
from jobforge.config import Config
from jobforge.db import migrate as migrations
from jobforge.db import migration_plan, schema_files
from jobforge.db.doctor import collect
from jobforge.db.doctor.probes import TableStats
from jobforge.db.doctor.vacuum_checks import advise_vacuum
from jobforge.db.migration_errors import REPAIR
from jobforge.db.migration_plan import plan
from jobforge.errors import ConfigError, Json, MigrationError

app = CommandGroup(DATABASE)


@app.command()
def migrate(
    context: CommandContext,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the files that are due; change nothing.")
    ] = False,
    lock_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Maximum wait for a locked table.")
    ] = "5s",
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Also correct roles, owners, grants and policies, for example after a restore.",
        ),
    ] = False,
    roles_only: Annotated[
        bool,
        typer.Option("--roles-only", help="Create only the roles, before restoring a backup."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Update the schema in one transaction."""
    if repair + roles_only + dry_run > 1:
        raise ConfigError("--dry-run, --repair and --roles-only can't be used together")
    if roles_only:
        with context.connect() as conn:
            migrations.create_roles(conn)
        output.note("Roles created, or already present")
        return
    if repair:
        _repair(context, lock_timeout, as_json=as_json)
        return
    with context.connect() as conn:
        if dry_run:
            names = [script.name for script in plan(conn)]
        else:
            with output.show_progress("migrating") as report:
                names = migrations.migrate(conn, lock_timeout=lock_timeout, on_progress=report)
        faults = [] if names else migrations.access_faults(conn)
    _print_names("name", names, as_json=as_json)
    if faults:
        output.note(
            f"Nothing is due; {_count(faults, 'access right')} wrong. To correct, run: {REPAIR}"
        )
    elif not names:
        output.note("Nothing is due")
    elif dry_run:
        output.note(f"{_count(names, 'file')} due; nothing was changed")
    else:
        output.note(f"{_count(names, 'file')} applied")


def _repair(context: CommandContext, lock_timeout: str, *, as_json: bool) -> None:
    with context.connect() as conn, output.show_progress("repairing") as report:
        faults = migrations.repair(conn, lock_timeout=lock_timeout, on_progress=report)
    _print_names("fault", faults, as_json=as_json)
    output.note(
        f"{_count(faults, 'access right')} corrected" if faults else "All access rights are correct"
    )


def _count(found: Sequence[object], noun: str) -> str:
    return f"{len(found)} {noun}{'s' * (len(found) != 1)}"


def _print_names(field: str, names: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        output.print_array([{field: name} for name in names])
    else:
        output.print_lines(names)


@app.command(options=LISTING + DATABASE)
def status(context: CommandContext) -> None:
    """List the files of the schema with their state.

    The state is applied, due, changed, tampered or unknown.
    """
    with context.connect() as conn:
        files = migration_plan.status(conn)
    print_listing([files], migration_plan.FileStatus, form=context.listing_format)


@app.command()
def check(
    context: CommandContext,
    *,
    details: Annotated[
        bool, typer.Option("--details", help="Also list each due file, or each wrong access right.")
    ] = False,
) -> None:
    """Check that the schema is up to date.

    Exits with 1 if files are due or tampered with, or if access rights differ from this release.
    """
    with context.connect() as conn:
        if details:
            due = [script.name for script in plan(conn)]
            output.print_lines(due or migrations.access_faults(conn))
        migrations.check(conn)
    output.note("The schema is up to date")


@app.command(options=())
def sql(
    *,
    supabase: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write Supabase migration files to."),
    ] = None,
    rls_test: Annotated[
        bool, typer.Option("--rls-test", help="Print a psql script that tests tenant isolation.")
    ] = False,
) -> None:
    """Print the schema as one file for psql."""
    if supabase and rls_test:
        raise ConfigError("--supabase and --rls-test can't be used together")
    if supabase:
        written = schema_files.write_supabase(supabase)
        output.print_lines(written)
        output.note(f"{_count(written, 'file')} written to {supabase}")
    elif rls_test:
        typer.echo((schema_files.SQL / "rls_test.sql").read_text(encoding="utf-8"), nl=False)
    else:
        typer.echo(schema_files.render_sql(), nl=False)


@app.command("vacuum-advice")
def vacuum_advice(context: CommandContext, *, as_json: AsJson = False) -> None:
    """Show dead rows and how to remove them.

    Lists each table's rows and last vacuum, and what prevents the removal of dead rows.
    """
    with context.connect() as conn:
        facts = collect.gather(conn)
    if not facts.inspection.has_schema:
        raise MigrationError("The schema is not installed", hint="jobforge db migrate")
    findings = advise_vacuum(facts)
    if as_json:
        tables = [asdict(table) for table in facts.tables]
        output.print_json({"tables": tables, "findings": [asdict(each) for each in findings]})
        return
    output.print_rows(_to_table_rows(facts.tables), as_json=False)
    print_findings(findings)
    if not findings:
        output.note(
            "No problems: tables are vacuumed, and nothing prevents the removal of dead rows"
        )


def _to_table_rows(tables: Iterable[TableStats]) -> list[dict[str, Json]]:
    """Return rows for tables that are not empty; most history partitions are."""
    return [
        {
            "table": table.name,
            "live": table.live,
            "dead": table.dead,
            "vacuumed_at": table.vacuumed_at,
            "autovacuum": "on" if table.has_autovacuum else "off",
        }
        for table in sorted(tables, key=lambda table: -table.dead)
        if table.live or table.dead
    ]


@app.command(options=())
def reset(context: CommandContext, *, yes: Yes = False) -> None:
    """Erase the data of the `jobforge dev` database permanently.

    Reinstalls the schema with the same tenant and API key.
    """
    config = context.config
    with psycopg.connect(_dev_url(config), autocommit=True) as conn:
        count = migrations.count_jobs(conn)
        jobs = f"{count:,} job{'s' * (count != 1)}"
        if not yes:
            confirm(f"erase the database in {config.postgres_dir} with {jobs}")
        migrations.drop_schema(conn)
        prepare_database(conn)
        key = config.data_dir / "key"
        if key.exists():
            find_or_create_key(key, conn)
    output.note(f"Database emptied: {jobs} erased; restart jobforge dev if it is running")


def _dev_url(config: Config) -> str:
    """Return the URL of the `jobforge dev` database.

    Raises ConfigError if the settings name another one: this command erases the database.
    """
    from jobforge.embedded import Embedded

    server = Embedded(config.postgres_dir).running()
    if config.server or config.database_url not in (None, server and server.url()):
        raise ConfigError(
            "The settings specify another database or a server; this command is for `jobforge dev`",
            hint="Unset JOBFORGE_DATABASE_URL and JOBFORGE_SERVER; jobforge config show --origin "
            "shows where they are set",
        )
    if server is None:
        raise ConfigError("`jobforge dev` is not running in this folder", hint="jobforge dev")
    return server.url()


@app.command()
def url(context: CommandContext) -> None:
    """Print the URL of the database, including the password."""
    typer.echo(context.database_url)


app.command("bind-login")(bound_logins.bind_login)
app.command("unbind-login")(bound_logins.unbind_login)
app.command("logins", options=LISTING + DATABASE)(bound_logins.logins)
