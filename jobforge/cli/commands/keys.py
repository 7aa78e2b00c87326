"""`jobforge keys`: manage API keys. For operators."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.bulk import confirm
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson, Yes, check_choice
from jobforge.cli.shared_options import ENGINE, LISTING, QUIET, TENANT
from jobforge.cli.time_args import parse_duration
from jobforge.errors import Invalid, Json
from jobforge.security.api_keys import create_key, rotate_key
from jobforge.types.api_keys import ApiKey, Role

app = CommandGroup(ENGINE)

KeyId = Annotated[UUID, typer.Argument(metavar="ID", help="ID of the key.")]


@app.command(options=TENANT)
def create(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the key.")],
    *,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role: viewer, tenant_admin or worker.")
    ] = "tenant_admin",
    super_admin: Annotated[
        bool,
        typer.Option(
            "--super-admin", help="Create an operator key, with all rights in all tenants."
        ),
    ] = False,
    every_tenant: Annotated[
        bool, typer.Option("--every-tenant", help="Serve all tenants; requires --role worker.")
    ] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="AREA:read|write", help="Scope that limits the key. Repeatable."),
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Lifetime, such as 90d. Default: unlimited."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it. It is shown only once."""
    if every_tenant and role != Role.WORKER:
        raise Invalid("--every-tenant requires --role worker", field="every_tenant")
    chosen = Role.SUPER_ADMIN if super_admin else _parse_role(role)
    is_installation = chosen is Role.SUPER_ADMIN or every_tenant
    context.engine.check_scopes(scope or ())
    created = context.engine.run(
        create_key(
            name,
            chosen,
            scopes=scope,
            expires_at=_parse_expires_in(expires_in),
            tenant_id=None if is_installation else context.session.tenant_id,
        )
    )
    output.print_new_secret("key", created.text, "Key", created.id, as_json=as_json)


@app.command("list", options=QUIET + LISTING + TENANT)
def list_(context: CommandContext) -> None:
    """List the newest 200 API keys, of one tenant or across all tenants."""
    tenant_id = None if context.params["tenant"] is None else context.session.tenant_id
    keys = context.engine.run(calls.list_api_keys(limit=200, tenant_id=tenant_id))
    print_listing([keys], ApiKey, _to_row, form=context.listing_format)


@app.command()
def revoke(context: CommandContext, key_id: KeyId, *, yes: Yes = False) -> None:
    """Revoke an API key permanently. Servers reject it within a second."""
    if not yes:
        confirm(f"revoke key {key_id}")
    context.engine.run(calls.revoke_api_key(key_id))
    output.note(f"Key {key_id} revoked")


@app.command()
def rotate(
    context: CommandContext,
    key_id: KeyId,
    *,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Period in which the old key remains valid, such as 1h."
        ),
    ] = "0",
    as_json: AsJson = False,
) -> None:
    """Replace an API key, and print the new key. It is shown only once.

    The new key has the same role, tenant and scopes.

    The existing key expires after the overlap.
    """
    overlap_s = parse_duration(overlap, "--overlap")
    created = context.engine.run(rotate_key(key_id, overlap_s=overlap_s))
    output.print_new_secret("key", created.text, "Key", created.id, as_json=as_json)


def _to_row(key: ApiKey) -> dict[str, Json]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "tenant_id": key.tenant_id,
        "scopes": ",".join(key.scopes),
        "created_at": key.created_at,
        "last_used_at": key.last_used_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }


def _parse_role(text: str) -> Role:
    return Role(check_choice("role", text, Role))


def _parse_expires_in(duration: str | None) -> datetime | None:
    if duration is None:
        return None
    return datetime.now(UTC) + timedelta(seconds=parse_duration(duration, "--expires-in"))
