"""`jobforge tenants`: create, limit, pause and delete tenants. For operators."""

from dataclasses import asdict
from functools import partial
from typing import Annotated
from uuid import UUID, uuid4

import typer

from jobforge import calls
from jobforge.cli import completions, output
from jobforge.cli.bulk import confirm, watch_operation
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext, TenantSession
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import (
    AsJson,
    BurstOption,
    MaxStartsOption,
    WaitOption,
    Yes,
    omit_none,
)
from jobforge.cli.shared_options import ENGINE, LISTING, QUIET
from jobforge.cli.time_args import parse_rate
from jobforge.errors import Invalid, Json, NotFound
from jobforge.types.tenants import TenantInfo

app = CommandGroup(ENGINE)

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


@app.command("list", options=QUIET + LISTING + ENGINE)
def list_(context: CommandContext) -> None:
    """List the tenants that have settings."""
    tenants = context.engine.run(calls.list_tenants())
    print_listing([tenants], TenantInfo, form=context.listing_format)


@app.command()
def show(context: CommandContext, tenant: TenantArgument, *, as_json: AsJson = False) -> None:
    """Show the settings of a tenant."""
    output.print_record(asdict(_find(context.session, tenant)), as_json=as_json)


@app.command()
def create(
    context: CommandContext,
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
    settings = omit_none(slug=slug, name=name, timezone=timezone)
    new_id = tenant_id or uuid4()
    context.engine.run(calls.put_tenant(new_id, settings))
    if as_json:
        output.print_json({"id": str(new_id), **settings})
    else:
        typer.echo(str(new_id))


@app.command()
def edit(
    context: CommandContext,
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
    rate: MaxStartsOption = None,
    burst: BurstOption = None,
    unlimited: Annotated[
        bool, typer.Option("--unlimited", help="Remove all limits except those specified.")
    ] = False,
) -> None:
    """Change a tenant's settings and limits. Omitted settings are unchanged."""
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
    context.engine.run(calls.put_tenant(context.session.tenant_id, changes))
    output.note(f"Tenant {tenant} updated")


@app.command()
def pause(context: CommandContext, tenant: TenantArgument) -> None:
    """Pause a tenant: its jobs do not start. Running jobs continue."""
    context.engine.run(calls.pause_tenant(context.session.tenant_id))
    output.note(f"Tenant {tenant} paused")


@app.command()
def resume(context: CommandContext, tenant: TenantArgument) -> None:
    """Resume a tenant."""
    context.engine.run(calls.resume_tenant(context.session.tenant_id))
    output.note(f"Tenant {tenant} resumed")


@app.command()
def delete(
    context: CommandContext, tenant: TenantArgument, *, yes: Yes = False, wait: WaitOption = True
) -> None:
    """Erase a tenant permanently: its jobs, history, keys and artifacts.

    Run the command again to watch an erasure that is in progress.
    """
    tenant_id = context.session.tenant_id
    if not yes:
        confirm(f"erase all data of tenant {tenant} ({tenant_id})")
    operation_id = context.engine.run(calls.delete_tenant(tenant_id))
    if not wait:
        typer.echo(str(operation_id))
        return
    advance = partial(context.engine.advance_erasure, tenant_id)
    operation = watch_operation(context.session, operation_id, advance)
    output.note(f"Tenant {tenant} erased: {operation.done:,} rows and all artifacts deleted")


def _find(session: TenantSession, text: str) -> TenantInfo:
    for tenant in session.engine.run(calls.list_tenants()):
        if tenant.id == session.tenant_id:
            return tenant
    raise NotFound(f"Tenant {text!r} has no settings", hint="jobforge tenants list")
