"""`jobforge triggers`: manage schedules and event triggers."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.bulk import confirm
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson, LimitOption, Yes, check_choice, omit_none
from jobforge.cli.shared_options import LISTING, QUIET, TENANT, IdArgument
from jobforge.cli.time_args import parse_moment
from jobforge.cli.trigger_options import DefinitionOption, parse_settings, trigger_options
from jobforge.errors import Invalid, Json
from jobforge.redact import redact
from jobforge.scheduler import validate
from jobforge.scheduler.interval import format_times, parse_times
from jobforge.types.triggers import Firing, Trigger, TriggerFilter, TriggerType

app = CommandGroup(TENANT)


@app.command("list", options=QUIET + LISTING + TENANT)
def list_(
    context: CommandContext,
    *,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="schedule|event", help="Type to match.")
    ] = None,
    definition: DefinitionOption = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--disabled", help="State to match.")
    ] = None,
) -> None:
    """List the newest 200 triggers."""
    which = TriggerFilter(_parse_type(type_) if type_ else None, definition, enabled=enabled)
    triggers = context.run(calls.list_triggers(which, limit=200))
    print_listing([triggers], Trigger, _to_row, _to_document, form=context.listing_format)


@app.command()
def show(context: CommandContext, trigger: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a trigger."""
    found = context.run(calls.get_trigger(context.session.find_id("trigger", trigger)))
    output.print_record(_to_document(found), as_json=as_json)


@app.command(options=(trigger_options, *TENANT))
def create(
    context: CommandContext,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Display name.")],
    *,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Create the trigger disabled.")
    ] = False,
) -> None:
    """Create a trigger and print its ID.

    --cron and --every create a schedule, --event an event trigger. The payload can contain
    templates: at={{schedule.fire_at}} or path={{event.path}}.
    """
    settings = parse_settings(context.params)
    if ("cron" in settings) == ("event" in settings):
        raise Invalid(
            "Specify one of --cron, --every and --event",
            field="cron",
            hint="Use --cron '0 9 * * MON-FRI', --every 30s or --event order.paid",
        )
    kind = TriggerType.SCHEDULE if "cron" in settings else TriggerType.EVENT
    settings |= {"label": label, **({"enabled": False} if disabled else {})}
    validate.check(kind, settings)
    typer.echo(str(context.run(calls.create_trigger(kind, settings))))


@app.command(options=(trigger_options, *TENANT))
def edit(
    context: CommandContext,
    trigger: IdArgument,
    *,
    label: Annotated[str | None, typer.Option(metavar="LABEL", help="New display name.")] = None,
) -> None:
    """Change a trigger. Omitted settings are unchanged.

    A payload replaces the previous one.
    """
    changes = parse_settings(context.params) | omit_none(label=label)
    if not changes:
        raise Invalid("No changes specified", hint="jobforge triggers edit --help")
    before = context.run(calls.get_trigger(context.session.find_id("trigger", trigger)))
    validate.check(before.type, changes, before)
    context.run(calls.edit_trigger(before.id, changes))
    output.note(f"Trigger {before.id} updated")


@app.command()
def enable(context: CommandContext, trigger: IdArgument) -> None:
    """Enable a trigger. Runs missed while it was disabled are not made up later."""
    found = context.session.find_id("trigger", trigger)
    context.run(calls.edit_trigger(found, {"enabled": True}))
    output.note(f"Trigger {found} enabled")


@app.command()
def disable(context: CommandContext, trigger: IdArgument) -> None:
    """Disable a trigger."""
    found = context.session.find_id("trigger", trigger)
    context.run(calls.edit_trigger(found, {"enabled": False}))
    output.note(f"Trigger {found} disabled")


@app.command()
def delete(context: CommandContext, trigger: IdArgument, *, yes: Yes = False) -> None:
    """Delete a trigger. Jobs that it created are unaffected."""
    found = context.session.find_id("trigger", trigger)
    if not yes:
        confirm(f"delete trigger {context.run(calls.get_trigger(found)).label!r}")
    context.run(calls.delete_trigger(found))
    output.note(f"Trigger {found} deleted")


@app.command("run")
def run_now(context: CommandContext, trigger: IdArgument, *, as_json: AsJson = False) -> None:
    """Fire a schedule now and print the time.

    `triggers firings` lists the job when the scheduler has created it.
    """
    fire_at = context.run(calls.run_trigger(context.session.find_id("trigger", trigger)))
    if as_json:
        output.print_json({"fire_at": fire_at})
    else:
        typer.echo(fire_at.isoformat())


@app.command()
def backfill(
    context: CommandContext,
    trigger: IdArgument,
    start: Annotated[str, typer.Argument(metavar="START", help="Start of the range.")],
    end: Annotated[str, typer.Argument(metavar="END", help="End of the range.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the run times.")] = False,
) -> None:
    """Fire a schedule for its run times in a range.

    Skips times that already fired, and prints the number of new firings.
    """
    first, last = parse_moment(start, "START"), parse_moment(end, "END")
    found = context.run(calls.get_trigger(context.session.find_id("trigger", trigger)))
    times = validate.list_fire_times(found, first, last)
    if dry_run:
        output.print_lines(time.isoformat() for time in times)
        return
    typer.echo(str(context.run(calls.backfill_trigger(found.id, times))))


@app.command(options=LISTING + TENANT)
def firings(
    context: CommandContext,
    trigger: IdArgument,
    *,
    limit: LimitOption = 50,
) -> None:
    """List the firings of a schedule, newest first."""
    found = context.run(
        calls.list_firings(context.session.find_id("trigger", trigger), limit=limit)
    )
    print_listing([found], Firing, form=context.listing_format)


@app.command("next", options=())
def next_(
    expression: Annotated[
        str,
        typer.Argument(
            metavar="CRON",
            help="Cron expression or interval, such as '0 9 * * MON-FRI' or '@every 30s'.",
        ),
    ],
    *,
    tz: Annotated[
        str, typer.Option("--tz", metavar="ZONE", help="Time zone, such as Europe/Berlin.")
    ] = "UTC",
    count: Annotated[
        int,
        typer.Option("--count", "-n", min=1, max=100, metavar="N", help="Number of run times."),
    ] = 5,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start of the preview. Default: now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a schedule and print its next run times. Works offline."""
    read = parse_times(expression, tz)
    moment = parse_moment(after, "--after") if after else datetime.now(UTC)
    runs = read.preview(moment, count)
    if as_json:
        shown = [
            {"at": run.at, "local": run.local.isoformat(), "change": run.change} for run in runs
        ]
        output.print_json({"description": read.describe(), "timezone": tz, "runs": shown})
        return
    output.note(f"{read.describe()}, {tz}")
    for run in runs:
        typer.echo(f"{run.local.isoformat()}{f'  ({run.change} time)' if run.change else ''}")


def _to_document(trigger: Trigger) -> dict[str, Json]:
    return asdict(replace(trigger, payload=redact(trigger.payload)))


def _to_row(trigger: Trigger) -> dict[str, Json]:
    return {
        "id": trigger.id,
        "label": trigger.label,
        "when": format_times(trigger.cron) if trigger.cron else trigger.event,
        "timezone": trigger.zone if trigger.cron else None,
        "definition": trigger.definition,
        "enabled": "yes" if trigger.enabled else trigger.fault or "no",
        "last_fired": trigger.last_fired_at,
        "next_run": trigger.next_run_at,
    }


def _parse_type(text: str) -> TriggerType:
    return TriggerType(check_choice("type", text, TriggerType))
