"""`jobforge tenants`: who shares this installation. For operators."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated
from uuid import UUID, uuid4

import typer

from jobforge.cli import completions, output
from jobforge.cli.bulk import Wait, Yes, confirm, watch
from jobforge.cli.engine import Engine, on_engine
from jobforge.cli.options import AsJson, Quiet, given
from jobforge.cli.tables import Form, in_form, print_listing
from jobforge.cli.tenant_session import Session, find_tenant
from jobforge.cli.time_args import parse_rate
from jobforge.errors import Invalid, Json, NotFound

if TYPE_CHECKING:
    from jobforge.types.tenants import TenantInfo

app = typer.Typer(help="See tenants, create, limit and pause them.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(metavar="SLUG|ID", autocompletion=completions.tenants)]
Name = Annotated[str | None, typer.Option(help="What people call it.")]
Zone = Annotated[str | None, typer.Option(help="Such as Europe/Berlin.")]

_NO_LIMITS: dict[str, Json] = dict.fromkeys(
    ("max_running", "max_pending", "rate_limit", "rate_burst")
)


@app.command("list")
@on_engine
@in_form
def list_(engine: Engine, form: Form, *, quiet: Quiet = False) -> None:
    """List the tenants that have settings. Others are known by their id alone."""
    from jobforge import calls
    from jobforge.types.tenants import TenantInfo

    print_listing(engine.run(calls.list_tenants()), TenantInfo, form=form, quiet=quiet)


@app.command()
@on_engine
def show(engine: Engine, tenant: Which, *, as_json: AsJson = False) -> None:
    """Show the settings of a tenant."""
    output.print_thing(asdict(_find(engine, tenant)), as_json=as_json)


@app.command()
@on_engine
def create(
    engine: Engine,
    slug: Annotated[str, typer.Argument(help="A short name, unique in this installation.")],
    *,
    tenant_id: Annotated[
        UUID | None, typer.Option("--id", metavar="UUID", help="Its id; else a random one.")
    ] = None,
    name: Name = None,
    timezone: Zone = None,
    as_json: AsJson = False,
) -> None:
    """Create a tenant and print its id."""
    from jobforge import calls

    settings = given(slug=slug, name=name, timezone=timezone)
    made = tenant_id or uuid4()
    engine.run(calls.put_tenant(made, settings))
    if as_json:
        output.print_json({"id": str(made), **settings})
    else:
        typer.echo(str(made))


@app.command()
@on_engine
def edit(
    engine: Engine,
    tenant: Which,
    *,
    slug: Annotated[str | None, typer.Option(help="A new one.")] = None,
    name: Name = None,
    timezone: Zone = None,
    weight: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Its share when tenants wait for each other; 1."),
    ] = None,
    max_running: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="So many of its jobs run at once.")
    ] = None,
    max_pending: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="So many of its jobs may wait.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N/PERIOD", help="Starts: 10/s, 100/m or 5/30s.")
    ] = None,
    burst: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Starts saved up; else the N of --rate.")
    ] = None,
    unlimited: Annotated[
        bool, typer.Option("--unlimited", help="Take its limits away, but those given here.")
    ] = False,
) -> None:
    """Change a tenant's settings and limits. What is not given stays."""
    from jobforge import calls

    changes = given(
        slug=slug,
        name=name,
        timezone=timezone,
        weight=weight,
        max_running=max_running,
        max_pending=max_pending,
        rate_burst=burst,
    )
    if rate is not None:
        changes["rate_limit"], changes["rate_period_s"] = parse_rate(rate, "--rate")
    changes = {**(_NO_LIMITS if unlimited else {}), **changes}
    if not changes:
        raise Invalid("nothing to change is named", hint="jobforge tenants edit --help")
    engine.run(calls.put_tenant(find_tenant(engine, tenant), changes))
    output.note(f"{tenant} is changed")


@app.command()
@on_engine
def pause(engine: Engine, tenant: Which) -> None:
    """Start no job of the tenant until it is resumed; what runs goes on."""
    from jobforge import calls

    engine.run(calls.pause_tenant(find_tenant(engine, tenant)))
    output.note(f"{tenant} is paused")


@app.command()
@on_engine
def resume(engine: Engine, tenant: Which) -> None:
    """Start jobs of the tenant again."""
    from jobforge import calls

    engine.run(calls.resume_tenant(find_tenant(engine, tenant)))
    output.note(f"{tenant} is resumed")


@app.command()
@on_engine
def delete(engine: Engine, tenant: Which, *, yes: Yes = False, wait: Wait = True) -> None:
    """Erase a tenant permanently: its jobs, history, keys and artifacts.

    Run the command again to watch an erasure that is under way.
    """
    from jobforge import calls

    tenant_id = find_tenant(engine, tenant)
    if not yes:
        confirm(f"erase everything of {tenant} ({tenant_id})?")
    operation_id = engine.run(calls.delete_tenant(tenant_id))
    if not wait:
        typer.echo(str(operation_id))
        return
    advance = partial(engine.advance_erasure, tenant_id)
    operation = watch(Session(engine, tenant_id), operation_id, advance)
    output.note(f"{tenant} is erased: {operation.done:,} rows and all artifacts are deleted")


def _find(engine: Engine, text: str) -> "TenantInfo":
    from jobforge import calls

    tenant_id = find_tenant(engine, text)
    for tenant in engine.run(calls.list_tenants()):
        if tenant.id == tenant_id:
            return tenant
    raise NotFound(f"tenant {text} has no settings", hint="jobforge tenants list")
