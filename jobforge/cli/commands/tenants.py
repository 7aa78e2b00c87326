"""`jobforge tenants`: create, limit, pause and delete tenants. For operators."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated
from uuid import UUID, uuid4

import typer

from jobforge.cli import completions, output
from jobforge.cli.bulk import WaitOption, Yes, confirm, watch_operation
from jobforge.cli.engine import CliEngine, with_engine
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson, Quiet, omit_none
from jobforge.cli.tenant_session import TenantSession, find_tenant
from jobforge.cli.time_args import parse_rate
from jobforge.errors import Invalid, Json, NotFound

if TYPE_CHECKING:
    from jobforge.types.tenants import TenantInfo

app = typer.Typer(help="List, create, limit, pause and delete tenants.", no_args_is_help=True)

TenantArgument = Annotated[
    str,
    typer.Argument(
        metavar="SLUG|ID",
        autocompletion=completions.complete_tenants,
        help="Slug or ID of the tenant.",
    ),
]
TenantNameOption = Annotated[str | None, typer.Option(metavar="NAME", help="Display name.")]
TimezoneOption = Annotated[
    str | None, typer.Option(metavar="ZONE", help="Time zone, such as Europe/Berlin.")
]

_NO_LIMITS: dict[str, Json] = dict.fromkeys(
    ("max_running", "max_pending", "rate_limit", "rate_burst")
)


@app.command("list")
@with_engine
@with_listing_format
def list_(engine: CliEngine, form: ListingFormat, *, quiet: Quiet = False) -> None:
    """List the tenants that have settings."""
    from jobforge import calls
    from jobforge.types.tenants import TenantInfo

    print_listing(engine.run(calls.list_tenants()), TenantInfo, form=form, quiet=quiet)


@app.command()
@with_engine
def show(engine: CliEngine, tenant: TenantArgument, *, as_json: AsJson = False) -> None:
    """Show the settings of a tenant."""
    output.print_record(asdict(_find(engine, tenant)), as_json=as_json)


@app.command()
@with_engine
def create(
    engine: CliEngine,
    slug: Annotated[
        str, typer.Argument(metavar="SLUG", help="Short name, unique in this installation.")
    ],
    *,
    tenant_id: Annotated[
        UUID | None, typer.Option("--id", metavar="UUID", help="ID. Default: random.")
    ] = None,
    name: TenantNameOption = None,
    timezone: TimezoneOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a tenant and print its ID."""
    from jobforge import calls

    settings = omit_none(slug=slug, name=name, timezone=timezone)
    new_id = tenant_id or uuid4()
    engine.run(calls.put_tenant(new_id, settings))
    if as_json:
        output.print_json({"id": str(new_id), **settings})
    else:
        typer.echo(str(new_id))


@app.command()
@with_engine
def edit(
    engine: CliEngine,
    tenant: TenantArgument,
    *,
    slug: Annotated[str | None, typer.Option(metavar="SLUG", help="New slug.")] = None,
    name: TenantNameOption = None,
    timezone: TimezoneOption = None,
    weight: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Share of the workers when tenants compete. Default: 1."
        ),
    ] = None,
    max_running: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Maximum running jobs.")
    ] = None,
    max_pending: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Maximum pending jobs.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="N/PERIOD", help="Maximum starts: 10/s, 100/m or 5/30s."),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Maximum burst. Default: the N of --rate."),
    ] = None,
    unlimited: Annotated[
        bool, typer.Option("--unlimited", help="Remove all limits except those specified.")
    ] = False,
) -> None:
    """Change a tenant's settings and limits. Omitted settings are unchanged."""
    from jobforge import calls

    changes = omit_none(
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
        raise Invalid("No changes specified", hint="jobforge tenants edit --help")
    engine.run(calls.put_tenant(find_tenant(engine, tenant), changes))
    output.note(f"Tenant {tenant} updated")


@app.command()
@with_engine
def pause(engine: CliEngine, tenant: TenantArgument) -> None:
    """Pause a tenant: its jobs do not start. Running jobs continue."""
    from jobforge import calls

    engine.run(calls.pause_tenant(find_tenant(engine, tenant)))
    output.note(f"Tenant {tenant} paused")


@app.command()
@with_engine
def resume(engine: CliEngine, tenant: TenantArgument) -> None:
    """Resume a tenant."""
    from jobforge import calls

    engine.run(calls.resume_tenant(find_tenant(engine, tenant)))
    output.note(f"Tenant {tenant} resumed")


@app.command()
@with_engine
def delete(
    engine: CliEngine, tenant: TenantArgument, *, yes: Yes = False, wait: WaitOption = True
) -> None:
    """Erase a tenant permanently: its jobs, history, keys and artifacts.

    Run the command again to watch an erasure that is in progress.
    """
    from jobforge import calls

    tenant_id = find_tenant(engine, tenant)
    if not yes:
        confirm(f"erase all data of tenant {tenant} ({tenant_id})")
    operation_id = engine.run(calls.delete_tenant(tenant_id))
    if not wait:
        typer.echo(str(operation_id))
        return
    advance = partial(engine.advance_erasure, tenant_id)
    operation = watch_operation(TenantSession(engine, tenant_id), operation_id, advance)
    output.note(f"Tenant {tenant} erased: {operation.done:,} rows and all artifacts deleted")


def _find(engine: CliEngine, text: str) -> "TenantInfo":
    from jobforge import calls

    tenant_id = find_tenant(engine, text)
    for tenant in engine.run(calls.list_tenants()):
        if tenant.id == tenant_id:
            return tenant
    raise NotFound(f"Tenant {text!r} has no settings", hint="jobforge tenants list")
