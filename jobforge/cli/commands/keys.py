"""`jobforge keys`: manage API keys. For operators."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from jobforge.cli import output
from jobforge.cli.bulk import Yes, confirm
from jobforge.cli.engine import CliEngine, with_engine
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson, Quiet, check_choice
from jobforge.cli.tenant_session import TenantOption, find_tenant
from jobforge.cli.time_args import parse_duration
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.types.api_keys import ApiKey, Role

app = typer.Typer(help="Create, list, rotate and revoke API keys.", no_args_is_help=True)

KeyId = Annotated[UUID, typer.Argument(metavar="ID", help="ID of the key.")]


@app.command()
@with_engine
def create(
    engine: CliEngine,
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
    tenant: TenantOption = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it. It is shown only once."""
    from jobforge.types.api_keys import Role

    if every_tenant and role != Role.WORKER:
        raise Invalid("--every-tenant requires --role worker", field="every_tenant")
    chosen = Role.SUPER_ADMIN if super_admin else _parse_role(role)
    is_installation = chosen is Role.SUPER_ADMIN or every_tenant
    key_id, text = engine.create_key(
        name,
        chosen,
        scopes=scope,
        expires_at=_parse_expires_in(expires_in),
        tenant_id=None if is_installation else find_tenant(engine, tenant),
    )
    _print_key(key_id, text, as_json=as_json)


@app.command("list")
@with_engine
@with_listing_format
def list_(
    engine: CliEngine, form: ListingFormat, *, quiet: Quiet = False, tenant: TenantOption = None
) -> None:
    """List the newest 200 API keys, of one tenant or across all tenants."""
    from jobforge import calls
    from jobforge.types.api_keys import ApiKey

    keys = engine.run(
        calls.list_api_keys(limit=200, tenant_id=_find_optional_tenant(engine, tenant))
    )
    print_listing(keys, ApiKey, _to_row, form=form, quiet=quiet)


@app.command()
@with_engine
def revoke(engine: CliEngine, key_id: KeyId, *, yes: Yes = False) -> None:
    """Revoke an API key permanently. Servers reject it within a second."""
    from jobforge import calls

    if not yes:
        confirm(f"revoke key {key_id}")
    engine.run(calls.revoke_api_key(key_id))
    output.note(f"Key {key_id} revoked")


@app.command()
@with_engine
def rotate(
    engine: CliEngine,
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
    new_id, text = engine.rotate_key(key_id, overlap_s=overlap_s)
    _print_key(new_id, text, as_json=as_json)


def _to_row(key: "ApiKey") -> dict[str, Json]:
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


def _parse_role(text: str) -> "Role":
    from jobforge.types.api_keys import Role

    return Role(check_choice("role", text, Role))


def _find_optional_tenant(engine: CliEngine, tenant: str | None) -> UUID | None:
    return None if tenant is None else find_tenant(engine, tenant)


def _parse_expires_in(duration: str | None) -> datetime | None:
    if duration is None:
        return None
    return datetime.now(UTC) + timedelta(seconds=parse_duration(duration, "--expires-in"))


def _print_key(key_id: UUID, text: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"id": str(key_id), "key": text})
        return
    typer.echo(text)
    output.note(f"Key ID: {key_id}; the key is not shown again")
