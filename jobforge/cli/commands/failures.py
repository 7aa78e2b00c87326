"""`jobforge failures`: list, redrive and discard a tenant's dead jobs by failure group."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.bulk import run_bulk_operation
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext, TenantSession
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson, NewAttemptsOption, ReasonOption
from jobforge.cli.shared_options import BULK, LISTING, TENANT
from jobforge.cli.time_args import parse_rate_per_second
from jobforge.errors import Invalid, Json, NotFound
from jobforge.redact import redact
from jobforge.types.failures import FailureFilter, FailureGroup
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind, OperationOptions

app = CommandGroup(TENANT)

Group = Annotated[
    str | None, typer.Argument(metavar="GROUP", help="Fingerprint of the group, or its start.")
]
RequiredGroup = Annotated[
    str, typer.Argument(metavar="GROUP", help="Fingerprint of the group, or its start.")
]
AllDeadOption = Annotated[bool, typer.Option("--all", help="All dead jobs of the tenant.")]

_MOST_GROUPS = 200


@app.command("list", options=LISTING + TENANT)
def list_(
    context: CommandContext,
    *,
    definition: Annotated[
        str | None, typer.Option(metavar="KEY", help="Definition to match.")
    ] = None,
) -> None:
    """List failure groups, most recent failure first."""
    found = _list_groups(context.session, definition)
    print_listing([found], FailureGroup, _to_row, _to_document, form=context.listing_format)


@app.command()
def show(
    context: CommandContext,
    group: RequiredGroup,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a failure group and the error of its newest job."""
    document = _to_document(_find(context.session, group))
    if as_json:
        output.print_json(document)
        return
    del document["hourly"]  # only for charts
    error = dict(document.pop("error") or {})
    output.print_fields(document)
    typer.echo(
        f"\n{output.clean(': '.join(filter(None, (error.get('type'), error.get('message')))))}"
    )
    output.print_block(error.get("traceback") or "", indent=2)


@app.command(options=BULK + TENANT)
def redrive(
    context: CommandContext,
    group: Group = None,
    *,
    everything: AllDeadOption = False,
    canary: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Number of canary jobs to retry first; stop if any of them fails.",
        ),
    ] = 1,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N/PERIOD", help="Maximum rate, such as 10/s or 600/m. Default: no limit."
        ),
    ] = None,
    attempts: NewAttemptsOption = None,
) -> None:
    """Retry the dead jobs of a group, canaries first. Print the operation's ID."""
    pace = None if rate is None else parse_rate_per_second(rate, "--rate")
    options = OperationOptions(attempts=attempts, canary=canary or None, rate=pace)
    which = _to_filter(context.session, group, everything=everything)
    run_bulk_operation(context, OperationKind.REDRIVE, which, options)


@app.command(options=BULK + TENANT)
def discard(
    context: CommandContext,
    group: Group = None,
    *,
    everything: AllDeadOption = False,
    reason: ReasonOption = None,
) -> None:
    """Discard the dead jobs of a group: mark them canceled. Print the operation's ID."""
    which = _to_filter(context.session, group, everything=everything)
    options = OperationOptions(reason=reason)
    run_bulk_operation(context, OperationKind.DISCARD, which, options)


@app.command()
def note(
    context: CommandContext,
    group: RequiredGroup,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text of the note. Empty: remove the note.")
    ],
) -> None:
    """Set the note of a failure group."""
    found = _find(context.session, group)
    context.run(calls.annotate_failure(found.fingerprint, {"note": text or None}))
    output.note(f"Note on {found.fingerprint[:12]} {'saved' if text else 'removed'}")


def _to_filter(session: TenantSession, group: str | None, *, everything: bool) -> JobFilter:
    if everything == (group is not None):
        raise Invalid("Specify a group or use --all", hint="jobforge failures list")
    fingerprint = None if group is None else _find(session, group).fingerprint
    return JobFilter(state="dead", fingerprint=fingerprint)


def _list_groups(session: TenantSession, definition: str | None = None) -> list["FailureGroup"]:
    return session.run(
        calls.list_failures(FailureFilter(definition=definition), limit=_MOST_GROUPS)
    )


def _find(session: TenantSession, start: str) -> FailureGroup:
    found = [group for group in _list_groups(session) if group.fingerprint.startswith(start)]
    if not found:
        raise NotFound(f"Failure group {start!r} not found", hint="jobforge failures list")
    if len(found) > 1:
        raise Invalid(
            f"Ambiguous group {start!r}: several fingerprints start with it",
            hint=f"Add more characters, as in {found[0].fingerprint}",
        )
    return found[0]


def _to_document(group: FailureGroup) -> dict[str, Json]:
    return {**asdict(group), "error": redact(group.error)}


def _to_row(group: FailureGroup) -> dict[str, Json]:
    error = dict(_to_document(group)["error"] or {})
    cause = ": ".join(filter(None, (error.get("type"), error.get("message"))))
    return {
        "group": group.fingerprint[:12] if output.is_terminal() else group.fingerprint,
        "jobs": group.jobs,
        "definition": group.definition,
        "last_seen": group.last_seen,
        "note": group.note,
        "error": cause[:80] if output.is_terminal() else cause,
    }
