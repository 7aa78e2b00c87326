"""`jobforge audit`: list audit log entries. For operators and tenant admins."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import LimitOption
from jobforge.cli.shared_options import LISTING, TENANT_OR_ALL
from jobforge.errors import Json
from jobforge.redact import redact
from jobforge.types.audit import AuditEntry, AuditFilter

app = CommandGroup()


@app.command(options=LISTING + TENANT_OR_ALL)
def audit(
    context: CommandContext,
    *,
    actor: Annotated[str | None, typer.Option(metavar="ACTOR", help="Actor to match.")] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Action to match, such as queue.pause.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="TARGET", help="Target to match.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List changes made by operators and API keys, newest first. Secrets are redacted."""
    filter_ = AuditFilter(actor, action, target)
    entries = context.engine.run(
        calls.list_audit(filter_, limit=limit, tenant_id=context.tenant_id_or_all)
    )
    print_listing([entries], AuditEntry, _to_row, _to_document, form=context.listing_format)


def _to_document(entry: AuditEntry) -> dict[str, Json]:
    return {**asdict(entry), "detail": redact(entry.detail)}


def _to_row(entry: AuditEntry) -> dict[str, Json]:
    shown = _to_document(entry)
    names = ("at", "actor", "action", "target", "detail", "tenant_id")
    return {name: shown[name] for name in names}
