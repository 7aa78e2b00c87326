"""`jobforge events`: emit events, list them and inspect their deliveries."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from time import sleep
from typing import Annotated
from uuid import UUID

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext, TenantSession
from jobforge.cli.engine import RemoteEngine
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import (
    AsJson,
    LimitOption,
    NoHeader,
    PayloadArgument,
    check_choice,
)
from jobforge.cli.payload_args import parse_payload
from jobforge.cli.shared_options import LISTING, QUIET, TENANT, IdArgument
from jobforge.client.http_only_requests import try_trigger
from jobforge.errors import Json, NotFound
from jobforge.redact import redact
from jobforge.scheduler import reaction
from jobforge.types.events import (
    DeliveryOutcome,
    Event,
    EventDelivery,
    EventFilter,
    EventListing,
    Reaction,
)

app = CommandGroup(TENANT)

TriggerIdArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRIGGER", help="ID of the trigger, or at least its first 8 characters."
    ),
]
EventNameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name to match, or a pattern such as order.*."),
]

_PAUSE_S = 1.0
_PAGE = 200


@app.command()
def send(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Event name, such as order.paid.")],
    data: PayloadArgument = None,
    *,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Event key: events with the same name and key create one job per trigger.",
        ),
    ] = None,
    correlation_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Correlation ID of the jobs. Default: event ID."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Emit an event and print its ID. Triggers create jobs for it shortly afterwards."""
    payload = parse_payload(data or [])
    call = calls.emit_event(name, payload, key=key, correlation_id=correlation_id)
    event_id = context.run(call)
    output.print_value("id", event_id, as_json=as_json)


@app.command("list", options=QUIET + LISTING + TENANT)
def list_(
    context: CommandContext,
    *,
    name: EventNameOption = None,
    limit: LimitOption = 50,
) -> None:
    """List events, newest first."""
    events = context.run(calls.list_events(EventFilter(name), limit=limit))
    print_listing([events], EventListing, _to_row, form=context.listing_format)


@app.command()
def show(context: CommandContext, event: IdArgument, *, as_json: AsJson = False) -> None:
    """Show an event and its deliveries.

    A delivery names the job that the trigger created, or why it created none.
    """
    found = context.run(calls.get_event(context.session.find_id("event", event)))
    if as_json:
        output.print_json(_to_document(found))
        return
    fields = _to_document(found)
    deliveries = fields.pop("deliveries")
    output.print_fields(fields)
    for delivery in deliveries:
        made = delivery["job_id"] or delivery["reason"] or ""
        again = f" (replay {delivery['replay']})" if delivery["replay"] else ""
        label = delivery["label"] or delivery["trigger_id"]
        typer.echo(output.clean(f"  {label}  {delivery['outcome']}{again}  {made}"))
    if not deliveries and not found.is_pending:
        output.note("No trigger matches this event")


@app.command()
def tail(
    context: CommandContext,
    *,
    name: EventNameOption = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of events to print. Default: until Ctrl-C."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    no_header: NoHeader = False,
) -> None:
    """Print new events as they arrive."""
    events = islice(_follow_events(context.session, EventFilter(name)), limit)
    if as_json:
        for event in events:
            output.print_json_line(asdict(event))
    else:
        output.print_table(([_to_row(event)] for event in events), no_header=no_header)


@app.command()
def replay(context: CommandContext, event: IdArgument, *, as_json: AsJson = False) -> None:
    """Deliver an event to its triggers again. They create new jobs."""
    found = context.session.find_id("event", event)
    number = context.run(calls.replay_event(found))
    if as_json:
        output.print_json({"id": str(found), "replay": number})
    else:
        output.note(f"Replay {number} of event {found}; jobforge events show lists its deliveries")


@app.command("test")
def dry_run(
    context: CommandContext,
    event: IdArgument,
    trigger: TriggerIdArgument,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the job that a trigger would create for a past event. Changes nothing."""
    event_id = context.session.find_id("event", event)
    trigger_id = context.session.find_id("trigger", trigger)
    reaction = _react(context.session, event_id, trigger_id)
    shown = {"outcome": reaction.outcome, "reason": reaction.reason, "job": reaction.job}
    if as_json:
        output.print_json(shown)
    else:
        output.print_fields(shown)


@app.command(options=LISTING + TENANT)
def deliveries(
    context: CommandContext,
    trigger: TriggerIdArgument,
    *,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="enqueued|deduplicated|filtered|failed",
            help="Outcome to match.",
        ),
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List the deliveries of events to a trigger, newest first."""
    wanted = DeliveryOutcome(check_choice("outcome", outcome, DeliveryOutcome)) if outcome else None
    try:
        found = context.session.find_id("trigger", trigger)
        made = context.run(calls.list_event_deliveries(found, limit=limit, outcome=wanted))
    except NotFound as error:
        raise NotFound(error.message, hint="jobforge triggers list") from error
    print_listing([made], EventDelivery, form=context.listing_format)


def _react(session: TenantSession, event_id: UUID, trigger_id: UUID) -> Reaction:
    """Evaluate the trigger for the event, on the server or in this process."""
    if isinstance(session.engine, RemoteEngine):
        request = try_trigger(trigger_id, event_id, tenant_id=session.tenant_id)
        return session.engine.transport.run(request)
    trigger = session.run(calls.get_trigger(trigger_id))
    event = session.run(calls.get_event(event_id))
    found = session.run(calls.get_definition(trigger.definition, version=trigger.version))
    result = reaction.dry_run(trigger, event, found.parameters)
    job = {**result.job, "payload": redact(result.job["payload"])} if result.job else None
    return result._replace(job=job)


def _to_row(event: EventListing) -> dict[str, Json]:
    outcomes = ", ".join(f"{number} {name}" for name, number in event.outcomes.items())
    return {
        "id": event.id,
        "name": event.name,
        "created_at": event.created_at,
        "state": "pending" if event.is_pending else outcomes or "no trigger",
    }


def _to_document(event: Event) -> dict[str, Json]:
    return {**asdict(event), "data": redact(event.data)}


def _follow_events(session: TenantSession, which: EventFilter) -> Iterator[EventListing]:
    """Yield new events, oldest first.

    Compares whole pages instead of paging by ID: an event that commits late has an older ID.
    """
    known = {event.id for event in session.run(calls.list_events(which, limit=_PAGE))}
    while True:
        page = session.run(calls.list_events(which, limit=_PAGE))
        yield from (event for event in reversed(page) if event.id not in known)
        known = {event.id for event in page}
        sleep(_PAUSE_S)
