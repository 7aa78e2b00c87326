"""`jobforge triggers`: manage schedules and event triggers."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.cli.bulk import Yes, confirm
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson, LimitOption, Quiet, check_choice
from jobforge.cli.tenant_session import IdArgument, TenantSession, with_tenant_session
from jobforge.cli.time_args import parse_moment
from jobforge.cli.trigger_options import DefinitionOption, with_trigger_settings
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.types.triggers import Trigger, TriggerType

app = typer.Typer(help="Manage schedules and event triggers.", no_args_is_help=True)

TriggerSettings = dict[str, Json]


@app.command("list")
@with_tenant_session
@with_listing_format
def list_(
    scope: TenantSession,
    form: ListingFormat,
    *,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="schedule|event", help="Type to match.")
    ] = None,
    definition: DefinitionOption = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--disabled", help="State to match.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """List the newest 200 triggers."""
    from jobforge import calls
    from jobforge.types.triggers import Trigger, TriggerFilter

    which = TriggerFilter(_parse_type(type_) if type_ else None, definition, enabled=enabled)
    triggers = scope.run(calls.list_triggers(which, limit=200))
    print_listing(triggers, Trigger, _to_row, _to_document, form=form, quiet=quiet)


@app.command()
@with_tenant_session
def show(scope: TenantSession, trigger: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a trigger."""
    from jobforge import calls

    found = scope.run(calls.get_trigger(scope.find_id("trigger", trigger)))
    output.print_record(_to_document(found), as_json=as_json)


@app.command()
@with_tenant_session
@with_trigger_settings
def create(
    scope: TenantSession,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Display name.")],
    settings: TriggerSettings,
    *,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Create the trigger disabled.")
    ] = False,
) -> None:
    """Create a trigger and print its ID.

    --cron creates a schedule, --event an event trigger. The payload can contain templates:
    at={{schedule.fire_at}} or path={{event.path}}.
    """
    from jobforge import calls
    from jobforge.scheduler import validate
    from jobforge.types.triggers import TriggerType

    if ("cron" in settings) == ("event" in settings):
        raise Invalid(
            "Specify either --cron or --event",
            field="cron",
            hint="Use --cron '0 9 * * MON-FRI' or --event order.paid",
        )
    kind = TriggerType.SCHEDULE if "cron" in settings else TriggerType.EVENT
    settings |= {"label": label, **({"enabled": False} if disabled else {})}
    validate.check(kind, settings)
    typer.echo(str(scope.run(calls.create_trigger(kind, settings))))


@app.command()
@with_tenant_session
@with_trigger_settings
def edit(
    scope: TenantSession,
    trigger: IdArgument,
    settings: TriggerSettings,
    *,
    label: Annotated[str | None, typer.Option(metavar="LABEL", help="New display name.")] = None,
) -> None:
    """Change a trigger. Omitted settings are unchanged.

    A payload replaces the previous one.
    """
    from jobforge import calls
    from jobforge.scheduler import validate

    changes = settings if label is None else {**settings, "label": label}
    if not changes:
        raise Invalid("No changes specified", hint="jobforge triggers edit --help")
    before = scope.run(calls.get_trigger(scope.find_id("trigger", trigger)))
    validate.check(before.type, changes, before)
    scope.run(calls.edit_trigger(before.id, changes))
    output.note(f"Trigger {before.id} updated")


@app.command()
@with_tenant_session
def enable(scope: TenantSession, trigger: IdArgument) -> None:
    """Enable a trigger. Runs missed while it was disabled are not made up later."""
    from jobforge import calls

    found = scope.find_id("trigger", trigger)
    scope.run(calls.edit_trigger(found, {"enabled": True}))
    output.note(f"Trigger {found} enabled")


@app.command()
@with_tenant_session
def disable(scope: TenantSession, trigger: IdArgument) -> None:
    """Disable a trigger."""
    from jobforge import calls

    found = scope.find_id("trigger", trigger)
    scope.run(calls.edit_trigger(found, {"enabled": False}))
    output.note(f"Trigger {found} disabled")


@app.command()
@with_tenant_session
def delete(scope: TenantSession, trigger: IdArgument, *, yes: Yes = False) -> None:
    """Delete a trigger. Jobs that it created are unaffected."""
    from jobforge import calls

    found = scope.find_id("trigger", trigger)
    if not yes:
        confirm(f"delete trigger {scope.run(calls.get_trigger(found)).label!r}")
    scope.run(calls.delete_trigger(found))
    output.note(f"Trigger {found} deleted")


@app.command("run")
@with_tenant_session
def run_now(scope: TenantSession, trigger: IdArgument, *, as_json: AsJson = False) -> None:
    """Fire a schedule now and print the time.

    `triggers firings` lists the job when the scheduler has created it.
    """
    from jobforge import calls

    fire_at = scope.run(calls.run_trigger(scope.find_id("trigger", trigger)))
    if as_json:
        output.print_json({"fire_at": fire_at})
    else:
        typer.echo(fire_at.isoformat())


@app.command()
@with_tenant_session
def backfill(
    scope: TenantSession,
    trigger: IdArgument,
    start: Annotated[str, typer.Argument(metavar="START", help="Start of the range.")],
    end: Annotated[str, typer.Argument(metavar="END", help="End of the range.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the run times.")] = False,
) -> None:
    """Fire a schedule for its run times in a range.

    Skips times that already fired, and prints the number of new firings.
    """
    from jobforge import calls
    from jobforge.scheduler import validate

    first, last = parse_moment(start, "START"), parse_moment(end, "END")
    found = scope.run(calls.get_trigger(scope.find_id("trigger", trigger)))
    times = validate.list_fire_times(found, first, last)
    if dry_run:
        output.print_lines(time.isoformat() for time in times)
        return
    typer.echo(str(scope.run(calls.backfill_trigger(found.id, times))))


@app.command()
@with_tenant_session
@with_listing_format
def firings(
    scope: TenantSession,
    trigger: IdArgument,
    form: ListingFormat,
    *,
    limit: LimitOption = 50,
) -> None:
    """List the firings of a schedule, newest first."""
    from jobforge import calls
    from jobforge.types.triggers import Firing

    found = scope.run(calls.list_firings(scope.find_id("trigger", trigger), limit=limit))
    print_listing(found, Firing, form=form)


@app.command("next")
def next_(
    expression: Annotated[
        str, typer.Argument(metavar="CRON", help="Cron expression, such as '0 9 * * MON-FRI'.")
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
    """Describe a cron expression and print its next run times. Works offline."""
    from datetime import UTC, datetime

    from jobforge.scheduler import cron

    read = cron.parse(expression, tz)
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


def _to_document(trigger: "Trigger") -> dict[str, Json]:
    from jobforge.redact import redact

    return asdict(replace(trigger, payload=redact(trigger.payload)))


def _to_row(trigger: "Trigger") -> dict[str, Json]:
    return {
        "id": trigger.id,
        "label": trigger.label,
        "when": trigger.cron or trigger.event,
        "timezone": trigger.zone if trigger.cron else None,
        "definition": trigger.definition,
        "enabled": "yes" if trigger.enabled else trigger.fault or "no",
        "last_fired": trigger.last_fired_at,
        "next_run": trigger.next_run_at,
    }


def _parse_type(text: str) -> "TriggerType":
    from jobforge.types.triggers import TriggerType

    return TriggerType(check_choice("type", text, TriggerType))
