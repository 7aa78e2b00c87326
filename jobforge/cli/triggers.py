"""`jobforge triggers`: what makes jobs by itself, by time or by event."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.moment import parse_duration, parse_moment
from jobforge.cli.options import AsJson, Payload
from jobforge.cli.payload import parse_json, parse_payload
from jobforge.cli.session import Tenant, session
from jobforge.cli.way import ApiKey, ServerUrl, Way
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.trigger import Trigger, TriggerType

app = typer.Typer(help="Schedules, and jobs that events make.", no_args_is_help=True)

TriggerId = Annotated[UUID, typer.Argument(metavar="ID", help="As `triggers list` shows it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print ids only.")]
CronOption = Annotated[
    str | None, typer.Option("--cron", metavar="CRON", help="Five fields, or @daily and such.")
]
Zone = Annotated[
    str | None,
    typer.Option("--tz", metavar="ZONE", help="Such as Europe/Berlin; else the tenant's."),
]
Event = Annotated[
    str | None, typer.Option("--event", metavar="NAME", help="An event, or order.* for all such.")
]
Definition = Annotated[str | None, typer.Option("--definition", "-d", metavar="KEY")]
Version = Annotated[int | None, typer.Option(help="Of the definition; else the newest.")]
Queue = Annotated[str | None, typer.Option(help="Else the definition's.")]
Priority = Annotated[int | None, typer.Option(help="Higher runs first; 0.")]
CatchUp = Annotated[
    str | None, typer.Option(metavar="none|last|all", help="Of times that were missed; last.")
]
CatchUpLimit = Annotated[int | None, typer.Option(metavar="N", help="With all: how many; 10.")]
Overlap = Annotated[
    str | None,
    typer.Option(
        metavar="allow|skip|queue|cancel_running",
        help="While a job of the time before is not finished; allow.",
    ),
]
Jitter = Annotated[str | None, typer.Option(metavar="DURATION", help="Start within it; 0.")]
Starts = Annotated[str | None, typer.Option("--starts", metavar="TIME", help="Not before it.")]
Ends = Annotated[str | None, typer.Option("--ends", metavar="TIME", help="Not from it on.")]
Filter = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help="Conditions on the event: a list.")
]
Window = Annotated[
    str | None,
    typer.Option("--dedupe-window", metavar="DURATION", help="Of events alike, one in it; 5m."),
]
DedupeKey = Annotated[str | None, typer.Option(metavar="TEMPLATE", help="What makes events alike.")]


@app.command("list")
def list_(
    *,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="schedule|event", help="Only those.")
    ] = None,
    definition: Definition = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List the newest 200 triggers."""
    from jobforge import calls
    from jobforge.trigger import TriggerFilter

    which = TriggerFilter(_type(type_) if type_ else None, definition, enabled=enabled)
    with session(Way(database_url, server, api_key), tenant) as scope:
        triggers = scope.run(calls.list_triggers(which, limit=200))
    if quiet:
        output.print_ids(trigger.id for trigger in triggers)
        return
    rows = [_shown(trigger) if as_json else _line(trigger) for trigger in triggers]
    output.print_rows(rows, as_json=as_json)


@app.command()
def show(
    trigger: TriggerId,
    *,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show a trigger."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        found = _shown(scope.run(calls.get_trigger(trigger)))
    if as_json:
        output.print_json(found)
    else:
        output.print_fields(found)


@app.command()
def create(
    label: Annotated[str, typer.Argument(help="What people call it.")],
    payload: Payload = None,
    *,
    definition: Definition = None,
    cron: CronOption = None,
    event: Event = None,
    tz: Zone = None,
    catch_up: CatchUp = None,
    catch_up_limit: CatchUpLimit = None,
    overlap: Overlap = None,
    jitter: Jitter = None,
    starts: Starts = None,
    ends: Ends = None,
    filter_: Filter = None,
    dedupe_window: Window = None,
    dedupe_key: DedupeKey = None,
    version: Version = None,
    queue: Queue = None,
    priority: Priority = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Not yet.")] = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Create a trigger and print its id: --cron for a schedule, --event for one by event.

    The payload may have tags: at={{schedule.fire_at}}, or path={{event.path}}.
    """
    from jobforge import calls, trigger_settings
    from jobforge.trigger import TriggerType

    if (cron is None) == (event is None):
        raise Invalid("give a trigger a --cron, or an --event", field="cron")
    kind = TriggerType.SCHEDULE if event is None else TriggerType.EVENT
    settings = _given(
        label=label,
        definition=definition,
        payload=parse_payload(payload) if payload else None,
        cron=cron,
        event=event,
        timezone=tz,
        catch_up=catch_up,
        catch_up_limit=catch_up_limit,
        overlap=overlap,
        jitter_s=_seconds(jitter, "--jitter"),
        starts_at=_moment(starts, "--starts"),
        ends_at=_moment(ends, "--ends"),
        filter=None if filter_ is None else parse_json(filter_, "--filter"),
        dedupe_window_s=_seconds(dedupe_window, "--dedupe-window"),
        dedupe_key=dedupe_key,
        version=version,
        queue=queue,
        priority=priority,
        enabled=False if disabled else None,
    )
    trigger_settings.check(kind, settings)
    with session(Way(database_url, server, api_key), tenant) as scope:
        typer.echo(str(scope.run(calls.create_trigger(kind, settings))))


@app.command()
def edit(
    trigger: TriggerId,
    payload: Payload = None,
    *,
    label: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    definition: Definition = None,
    cron: CronOption = None,
    event: Event = None,
    tz: Zone = None,
    catch_up: CatchUp = None,
    catch_up_limit: CatchUpLimit = None,
    overlap: Overlap = None,
    jitter: Jitter = None,
    starts: Starts = None,
    ends: Ends = None,
    filter_: Filter = None,
    dedupe_window: Window = None,
    dedupe_key: DedupeKey = None,
    version: Version = None,
    queue: Queue = None,
    priority: Priority = None,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Change a trigger. What is not given stays; a payload replaces the one before."""
    from jobforge import calls, trigger_settings

    changes = _given(
        label=label,
        definition=definition,
        payload=parse_payload(payload) if payload else None,
        cron=cron,
        event=event,
        timezone=tz,
        catch_up=catch_up,
        catch_up_limit=catch_up_limit,
        overlap=overlap,
        jitter_s=_seconds(jitter, "--jitter"),
        starts_at=_moment(starts, "--starts"),
        ends_at=_moment(ends, "--ends"),
        filter=None if filter_ is None else parse_json(filter_, "--filter"),
        dedupe_window_s=_seconds(dedupe_window, "--dedupe-window"),
        dedupe_key=dedupe_key,
        version=version,
        queue=queue,
        priority=priority,
    )
    if not changes:
        raise Invalid("nothing to change is named")
    with session(Way(database_url, server, api_key), tenant) as scope:
        before = scope.run(calls.get_trigger(trigger))
        trigger_settings.check(before.type, changes, before)
        scope.run(calls.edit_trigger(trigger, changes))


@app.command()
def enable(
    trigger: TriggerId,
    *,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Let a trigger fire again. What it missed meanwhile is not caught up."""
    _switch(Way(database_url, server, api_key), tenant, trigger, enabled=True)


@app.command()
def disable(
    trigger: TriggerId,
    *,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Keep a trigger from firing."""
    _switch(Way(database_url, server, api_key), tenant, trigger, enabled=False)


@app.command()
def delete(
    trigger: TriggerId,
    *,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Delete a trigger; the jobs that it made go on."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        scope.run(calls.delete_trigger(trigger))


@app.command("run")
def run_now(
    trigger: TriggerId,
    *,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Fire a schedule now. `triggers firings` shows the job, once the scheduler has made it."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        fire_at = scope.run(calls.run_trigger(trigger))
    if as_json:
        output.print_json({"fire_at": fire_at})
    else:
        typer.echo(fire_at.isoformat())


@app.command()
def backfill(
    trigger: TriggerId,
    start: Annotated[str, typer.Argument(metavar="START", help="A time: from it on.")],
    end: Annotated[str, typer.Argument(metavar="END", help="A time: up to it.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the times.")] = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Fire a schedule for all times between; those that have a firing already are left alone."""
    from jobforge import calls, trigger_settings

    first, last = parse_moment(start, "START"), parse_moment(end, "END")
    with session(Way(database_url, server, api_key), tenant) as scope:
        found = scope.run(calls.get_trigger(trigger))
        times = trigger_settings.times_between(found, first, last)
        if dry_run:
            output.print_ids(time.isoformat() for time in times)
            return
        typer.echo(str(scope.run(calls.backfill_trigger(trigger, times))))


@app.command()
def firings(
    trigger: TriggerId,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="N")] = 50,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List what came of a schedule's times, latest first."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        found = scope.run(calls.list_firings(trigger, limit=limit))
    rows: list[dict[str, Json]] = [asdict(firing) for firing in found]
    output.print_rows(rows, as_json=as_json)


@app.command("next")
def next_(
    expression: Annotated[str, typer.Argument(metavar="CRON", help="Such as '0 9 * * MON-FRI'.")],
    *,
    tz: Annotated[str, typer.Option("--tz", metavar="ZONE")] = "UTC",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, metavar="N")] = 5,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="From when on; else from now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say a schedule in words, and when it fires next. Asks nobody."""
    from datetime import UTC, datetime

    from jobforge import cron

    read = cron.parse(expression, tz)
    moment = parse_moment(after, "--after") if after else datetime.now(UTC)
    runs = read.preview(moment, count)
    if as_json:
        shown = [
            {"at": run.at, "local": run.local.isoformat(), "change": run.change} for run in runs
        ]
        output.print_json({"words": read.words(), "timezone": tz, "runs": shown})
        return
    output.note(f"{read.words()}, {tz}")
    for run in runs:
        typer.echo(f"{run.local.isoformat()}{f'  ({run.change} time)' if run.change else ''}")


def _switch(way: Way, tenant: str | None, trigger: UUID, *, enabled: bool) -> None:
    from jobforge import calls

    with session(way, tenant) as scope:
        scope.run(calls.edit_trigger(trigger, {"enabled": enabled}))


def _shown(trigger: "Trigger") -> dict[str, Json]:
    from jobforge.redact import redact

    return asdict(replace(trigger, payload=redact(trigger.payload)))


def _line(trigger: "Trigger") -> dict[str, Json]:
    return {
        "id": trigger.id,
        "label": trigger.label,
        "when": trigger.cron or trigger.event,
        "zone": trigger.zone if trigger.cron else None,
        "definition": trigger.definition,
        "enabled": "yes" if trigger.enabled else trigger.fault or "no",
        "last_fired": trigger.last_fired_at,
        "next": trigger.next_run_at,
    }


def _type(text: str) -> "TriggerType":
    from jobforge.trigger import TriggerType

    try:
        return TriggerType(text)
    except ValueError:
        raise Invalid(f"--type is schedule or event, not {text!r}", field="type") from None


def _given(**settings: Json) -> dict[str, Json]:
    return {name: value for name, value in settings.items() if value is not None}


def _seconds(text: str | None, option: str) -> int | None:
    return None if text is None else round(parse_duration(text, option))


def _moment(text: str | None, option: str) -> str | None:
    return None if text is None else parse_moment(text, option).isoformat()
