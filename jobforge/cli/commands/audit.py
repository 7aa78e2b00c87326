"""`jobforge audit`: list audit log entries. For operators and tenant admins."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli.engine import CliEngine, with_engine
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import LimitOption
from jobforge.cli.tenant_session import TenantOrAllOption, find_tenant_or_all
from jobforge.errors import Json

if TYPE_CHECKING:
    from jobforge.types.audit import AuditEntry


@with_engine
@with_listing_format
def audit(
    engine: CliEngine,
    form: ListingFormat,
    *,
    actor: Annotated[str | None, typer.Option(metavar="ACTOR", help="Actor to match.")] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Action to match, such as queue.pause.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="TARGET", help="Target to match.")] = None,
    limit: LimitOption = 50,
    tenant: TenantOrAllOption = None,
) -> None:
    """List changes made by operators and API keys, newest first. Secrets are redacted."""
    from jobforge import calls
    from jobforge.types.audit import AuditEntry, AuditFilter

    filter_ = AuditFilter(actor, action, target)
    named = find_tenant_or_all(engine, tenant)
    entries = engine.run(calls.list_audit(filter_, limit=limit, tenant_id=named))
    print_listing(entries, AuditEntry, _to_row, _to_document, form=form)


def _to_document(entry: "AuditEntry") -> dict[str, Json]:
    from jobforge.redact import redact

    return {**asdict(entry), "detail": redact(entry.detail)}


def _to_row(entry: "AuditEntry") -> dict[str, Json]:
    shown = _to_document(entry)
    names = ("at", "actor", "action", "target", "detail", "tenant_id")
    return {name: shown[name] for name in names}
