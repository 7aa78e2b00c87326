"""`jobforge tenants`: who shares this installation. For operators."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID, uuid4

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.options import AsJson
from jobforge.cli.way import ApiKey, ServerUrl, Way, reached
from jobforge.errors import Json

app = typer.Typer(help="Create and list tenants.", no_args_is_help=True)


@app.command()
def create(
    slug: Annotated[str, typer.Argument(help="A short name, unique in this installation.")],
    *,
    tenant_id: Annotated[
        UUID | None, typer.Option("--id", metavar="UUID", help="Its id; else a random one.")
    ] = None,
    name: Annotated[str | None, typer.Option()] = None,
    timezone: Annotated[str | None, typer.Option(help="Such as Europe/Berlin.")] = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Create a tenant and print its id."""
    from jobforge import calls

    given = {"slug": slug, "name": name, "timezone": timezone}
    settings = {field: value for field, value in given.items() if value is not None}
    made = tenant_id or uuid4()
    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.put_tenant(made, settings))
    if as_json:
        output.print_json({"id": str(made), **settings})
    else:
        typer.echo(str(made))


@app.command("list")
def list_(
    *,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List the tenants that have settings; others are known by their id alone."""
    from jobforge import calls

    with reached(Way(database_url, server, api_key)) as engine:
        tenants = engine.run(calls.list_tenants())
    rows: list[dict[str, Json]] = [asdict(tenant) for tenant in tenants]
    output.print_rows(rows, as_json=as_json)
