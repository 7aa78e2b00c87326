"""`jobforge webhooks`: manage a tenant's webhooks and their deliveries."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.bulk import confirm, read_secret
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson, LimitOption, Yes, check_choice, omit_none
from jobforge.cli.shared_options import LISTING, QUIET, TENANT, IdArgument
from jobforge.cli.time_args import parse_duration
from jobforge.errors import Invalid, Json
from jobforge.security import webhook_secrets
from jobforge.types.webhooks import Delivery, DeliveryState, Webhook

app = CommandGroup(TENANT)

EventsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--event",
        metavar="EVENT",
        help="Event to send: start, success, failure, dead or end. Repeatable.",
    ),
]
DefinitionsOption = Annotated[
    list[str] | None,
    typer.Option("--definition", metavar="KEY", help="Definition of the jobs. Repeatable."),
]
DescriptionOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Purpose of the webhook.")
]


@app.command("list", options=QUIET + LISTING + TENANT)
def list_(context: CommandContext) -> None:
    """List webhooks, newest first."""
    webhooks = context.run(calls.list_webhooks(limit=200))
    print_listing([webhooks], Webhook, _to_row, form=context.listing_format)


@app.command()
def show(context: CommandContext, webhook: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a webhook without its secret."""
    found = context.run(calls.get_webhook(context.session.find_id("webhook", webhook)))
    output.print_record(asdict(found), as_json=as_json)


@app.command()
def create(
    context: CommandContext,
    url: Annotated[str, typer.Argument(metavar="URL", help="Public HTTPS URL of the receiver.")],
    *,
    event: EventsOption = None,
    definition: DefinitionsOption = None,
    description: DescriptionOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a webhook and print its signing secret. It is shown only once.

    Default events: success and dead. With a database, the setting secret_key is required.
    """
    settings = omit_none(url=url, events=event, definitions=definition, description=description)
    context.engine.check_url(url)
    key = context.session.open_tenant_key()
    created = context.run(webhook_secrets.create_webhook(settings, key))
    output.print_new_secret("secret", created.secret, "Webhook", created.id, as_json=as_json)


@app.command()
def edit(
    context: CommandContext,
    webhook: IdArgument,
    *,
    url: Annotated[str | None, typer.Option(metavar="URL", help="New URL of the receiver.")] = None,
    event: EventsOption = None,
    definition: DefinitionsOption = None,
    all_definitions: Annotated[
        bool, typer.Option("--all-definitions", help="Send messages for jobs of all definitions.")
    ] = False,
    description: DescriptionOption = None,
    enabled: Annotated[
        bool | None,
        typer.Option(
            "--enable/--disable",
            help="Enable or disable the webhook. Enabling clears the reason why it was disabled.",
        ),
    ] = None,
    secret: Annotated[
        bool,
        typer.Option(
            "--secret",
            help="Prompt for the secret, or read it from stdin. Required if --url changes the "
            "scheme, host or port.",
        ),
    ] = False,
) -> None:
    """Change a webhook. Omitted settings are unchanged."""
    changes = omit_none(
        url=url, events=event, definitions=definition, description=description, enabled=enabled
    )
    if all_definitions:
        changes["definitions"] = None
    if not changes and not secret:
        raise Invalid("No changes specified", hint="jobforge webhooks edit --help")
    if url is not None:
        context.engine.check_url(url)
    found = context.session.find_id("webhook", webhook)
    key = None
    if secret:
        changes["secret"] = read_secret("secret")
        key = context.session.open_tenant_key()
    context.run(webhook_secrets.edit_webhook(found, changes, key))
    output.note(f"Webhook {found} updated")


@app.command()
def delete(context: CommandContext, webhook: IdArgument, *, yes: Yes = False) -> None:
    """Delete a webhook. Pending messages are not sent."""
    found = context.session.find_id("webhook", webhook)
    if not yes:
        confirm(f"delete the webhook to {context.run(calls.get_webhook(found)).url}")
    context.run(calls.delete_webhook(found))
    output.note(f"Webhook {found} deleted")


@app.command()
def rotate(
    context: CommandContext,
    webhook: IdArgument,
    *,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Period in which the old secret also signs messages."
        ),
    ] = "1d",
    as_json: AsJson = False,
) -> None:
    """Create a new signing secret and print it. It is shown only once.

    The old secret also signs messages during the overlap.
    """
    overlap_s = parse_duration(overlap, "--overlap")
    found = context.session.find_id("webhook", webhook)
    key = context.session.open_tenant_key()
    secret = context.run(webhook_secrets.rotate_webhook(found, key, overlap_s=overlap_s))
    output.print_new_secret("secret", secret, "Webhook", found, as_json=as_json)


@app.command("test")
def send_test(context: CommandContext, webhook: IdArgument, *, as_json: AsJson = False) -> None:
    """Send a test message and print the delivery's ID."""
    delivery_id = context.run(calls.test_webhook(context.session.find_id("webhook", webhook)))
    output.print_value("delivery_id", delivery_id, as_json=as_json)


@app.command(options=QUIET + LISTING + TENANT)
def deliveries(
    context: CommandContext,
    webhook: IdArgument,
    *,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="State to match: pending, delivered or failed."),
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List a webhook's deliveries, newest first. --json includes the responses."""
    webhook_id = context.session.find_id("webhook", webhook)
    found = context.run(calls.list_deliveries(webhook_id, _parse_state(state), limit=limit))
    print_listing([found], Delivery, _to_delivery_row, form=context.listing_format)


@app.command()
def redeliver(
    context: CommandContext,
    webhook: IdArgument,
    delivery: Annotated[UUID, typer.Argument(metavar="DELIVERY", help="ID of the delivery.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Send a message again with the same ID. Print the ID of the job that sends it."""
    job_id = context.run(calls.redeliver(context.session.find_id("webhook", webhook), delivery))
    output.print_value("job_id", job_id, as_json=as_json)


def _parse_state(text: str | None) -> DeliveryState | None:
    return None if text is None else DeliveryState(check_choice("state", text, DeliveryState))


def _to_row(webhook: Webhook) -> dict[str, Json]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": ",".join(webhook.events),
        "definitions": ",".join(webhook.definitions or ["all"]),
        "state": "enabled" if webhook.enabled else webhook.disabled_reason,
        "created_at": webhook.created_at,
    }


def _to_delivery_row(delivery: Delivery) -> dict[str, Json]:
    return {
        "id": delivery.id,
        "event": delivery.event,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "status": delivery.status,
        "job": delivery.subject_id,
        "created_at": delivery.created_at,
        "error": delivery.error,
    }
