"""`jobforge keys`: keys to the HTTP API. For operators."""

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

KeyId = Annotated[UUID, typer.Argument(metavar="ID", help="As `keys list` shows it.")]


@app.command()
@with_engine
def create(
    engine: CliEngine,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    *,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="viewer, tenant_admin or worker.")
    ] = "tenant_admin",
    super_admin: Annotated[
        bool, typer.Option("--super-admin", help="For operators: everything, every tenant.")
    ] = False,
    every_tenant: Annotated[
        bool, typer.Option("--every-tenant", help="With --role worker: it serves all of them.")
    ] = False,
    scope: Annotated[
        list[str] | None, typer.Option(metavar="AREA:read|write", help="Only that; repeatable.")
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 90d; else it does not expire.")
    ] = None,
    tenant: TenantOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It is shown this once."""
    from jobforge.types.api_keys import Role

    if every_tenant and role != Role.WORKER:
        raise Invalid("--every-tenant is for --role worker", field="every_tenant")
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
    """List the newest 200 keys; of one tenant, or of all."""
    from jobforge import calls
    from jobforge.types.api_keys import ApiKey

    keys = engine.run(
        calls.list_api_keys(limit=200, tenant_id=_find_optional_tenant(engine, tenant))
    )
    print_listing(keys, ApiKey, _to_row, form=form, quiet=quiet)


@app.command()
@with_engine
def revoke(engine: CliEngine, key_id: KeyId, *, yes: Yes = False) -> None:
    """End a key, for good; servers notice within a second."""
    from jobforge import calls

    if not yes:
        confirm(f"revoke the key {key_id}?")
    engine.run(calls.revoke_api_key(key_id))
    output.note(f"{key_id} is revoked")


@app.command()
@with_engine
def rotate(
    engine: CliEngine,
    key_id: KeyId,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="For so long the old key goes on to work.")
    ] = "0",
    as_json: AsJson = False,
) -> None:
    """Create a key of the same kind, and let the old one end."""
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
    output.note(f"id {key_id}; the key is not shown again")
