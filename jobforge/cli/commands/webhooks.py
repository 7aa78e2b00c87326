"""`jobforge webhooks`: manage a tenant's webhooks and their deliveries."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from jobforge.cli import output
from jobforge.cli.bulk import Yes, confirm, read_secret
from jobforge.cli.engine import RemoteEngine
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson, LimitOption, Quiet, check_choice, omit_none
from jobforge.cli.tenant_session import IdArgument, TenantSession, with_tenant_session
from jobforge.cli.time_args import parse_duration
from jobforge.config import load
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.security.webhook_secrets import NewWebhookSecret
    from jobforge.types.webhooks import Delivery, DeliveryState, Webhook

app = typer.Typer(help="Manage webhooks, which notify receivers about jobs.", no_args_is_help=True)

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


@app.command("list")
@with_tenant_session
@with_listing_format
def list_(scope: TenantSession, form: ListingFormat, *, quiet: Quiet = False) -> None:
    """List webhooks, newest first."""
    from jobforge import calls
    from jobforge.types.webhooks import Webhook

    webhooks = scope.run(calls.list_webhooks(limit=200))
    print_listing(webhooks, Webhook, _to_row, form=form, quiet=quiet)


@app.command()
@with_tenant_session
def show(scope: TenantSession, webhook: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a webhook without its secret."""
    from jobforge import calls

    found = scope.run(calls.get_webhook(scope.find_id("webhook", webhook)))
    output.print_record(asdict(found), as_json=as_json)


@app.command()
@with_tenant_session
def create(
    scope: TenantSession,
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
    webhook_id, secret = _create(scope, settings)
    _print_secret(webhook_id, secret, as_json=as_json)


@app.command()
@with_tenant_session
def edit(
    scope: TenantSession,
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
    from jobforge import calls

    changes = omit_none(
        url=url, events=event, definitions=definition, description=description, enabled=enabled
    )
    if all_definitions:
        changes["definitions"] = None
    if not changes and not secret:
        raise Invalid("No changes specified", hint="jobforge webhooks edit --help")
    _check_url(scope, url)
    found = scope.find_id("webhook", webhook)
    sealed = None
    if secret and isinstance(scope.engine, RemoteEngine):
        changes["secret"] = read_secret("secret")  # the server seals it
    elif secret:
        sealed = _seal_secret(scope, found, read_secret("secret"))
    scope.run(calls.edit_webhook(found, changes, secret=sealed))
    output.note(f"Webhook {found} updated")


@app.command()
@with_tenant_session
def delete(scope: TenantSession, webhook: IdArgument, *, yes: Yes = False) -> None:
    """Delete a webhook. Pending messages are not sent."""
    from jobforge import calls

    found = scope.find_id("webhook", webhook)
    if not yes:
        confirm(f"delete the webhook to {scope.run(calls.get_webhook(found)).url}")
    scope.run(calls.delete_webhook(found))
    output.note(f"Webhook {found} deleted")


@app.command()
@with_tenant_session
def rotate(
    scope: TenantSession,
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
    found = scope.find_id("webhook", webhook)
    secret = _rotate(scope, found, overlap_s)
    _print_secret(found, secret, as_json=as_json)


@app.command("test")
@with_tenant_session
def send_test(scope: TenantSession, webhook: IdArgument, *, as_json: AsJson = False) -> None:
    """Send a test message and print the delivery's ID."""
    from jobforge import calls

    delivery_id = scope.run(calls.test_webhook(scope.find_id("webhook", webhook)))
    output.print_value("delivery_id", delivery_id, as_json=as_json)


@app.command()
@with_tenant_session
@with_listing_format
def deliveries(
    scope: TenantSession,
    webhook: IdArgument,
    form: ListingFormat,
    *,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="State to match: pending, delivered or failed."),
    ] = None,
    limit: LimitOption = 50,
    quiet: Quiet = False,
) -> None:
    """List a webhook's deliveries, newest first. --json includes the responses."""
    from jobforge import calls
    from jobforge.types.webhooks import Delivery

    webhook_id = scope.find_id("webhook", webhook)
    found = scope.run(calls.list_deliveries(webhook_id, _parse_state(state), limit=limit))
    print_listing(found, Delivery, _to_delivery_row, form=form, quiet=quiet)


@app.command()
@with_tenant_session
def redeliver(
    scope: TenantSession,
    webhook: IdArgument,
    delivery: Annotated[UUID, typer.Argument(metavar="DELIVERY", help="ID of the delivery.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Send a message again with the same ID. Print the ID of the job that sends it."""
    from jobforge import calls

    job_id = scope.run(calls.redeliver(scope.find_id("webhook", webhook), delivery))
    output.print_value("job_id", job_id, as_json=as_json)


def _create(scope: TenantSession, settings: dict[str, Json]) -> tuple[UUID, str]:
    if isinstance(scope.engine, RemoteEngine):
        from jobforge.client.http_only_requests import create_webhook

        created = scope.engine.transport.run(create_webhook(settings, tenant_id=scope.tenant_id))
        return created.id, created.secret
    from jobforge import calls
    from jobforge.security.webhook_secrets import generate_webhook_id

    _check_url(scope, settings["url"])
    webhook_id = generate_webhook_id()
    secret = _new_secret(scope, webhook_id)
    scope.run(calls.create_webhook(webhook_id, settings, secret=secret.sealed))
    return webhook_id, secret.text


def _rotate(scope: TenantSession, webhook_id: UUID, overlap_s: float) -> str:
    if isinstance(scope.engine, RemoteEngine):
        from jobforge.client.http_only_requests import rotate_webhook

        request = rotate_webhook(webhook_id, overlap_s=overlap_s, tenant_id=scope.tenant_id)
        return scope.engine.transport.run(request)
    from jobforge import calls

    secret = _new_secret(scope, webhook_id)
    scope.run(calls.rotate_webhook(webhook_id, secret=secret.sealed, overlap_s=overlap_s))
    return secret.text


def _new_secret(scope: TenantSession, webhook_id: UUID) -> "NewWebhookSecret":
    from jobforge.security.vault import open_vault
    from jobforge.security.webhook_secrets import create_webhook_secret

    key = scope.run(open_vault(load()).build_tenant_key_call(scope.tenant_id))
    return create_webhook_secret(key, webhook_id)


def _seal_secret(scope: TenantSession, webhook_id: UUID, secret: str) -> bytes:
    from jobforge.security.vault import open_vault
    from jobforge.security.webhook_secrets import seal_given_secret

    key = scope.run(open_vault(load()).build_tenant_key_call(scope.tenant_id))
    return seal_given_secret(key, webhook_id, secret)


def _check_url(scope: TenantSession, url: str | None) -> None:
    """Check the URL against the egress policy. A server does this itself."""
    if url is None or isinstance(scope.engine, RemoteEngine):
        return
    from jobforge.connectors.egress import policy_from_config, read_url

    read_url(url, policy_from_config(load()))


def _parse_state(text: str | None) -> "DeliveryState | None":
    from jobforge.types.webhooks import DeliveryState

    return None if text is None else DeliveryState(check_choice("state", text, DeliveryState))


def _to_row(webhook: "Webhook") -> dict[str, Json]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": _join_words(webhook.events),
        "definitions": _join_words(webhook.definitions or ["all"]),
        "state": "enabled" if webhook.enabled else webhook.disabled_reason,
        "created_at": webhook.created_at,
    }


def _to_delivery_row(delivery: "Delivery") -> dict[str, Json]:
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


def _join_words(words: Sequence[str]) -> str:
    return ",".join(words)


def _print_secret(webhook_id: UUID, secret: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"id": str(webhook_id), "secret": secret})
        return
    typer.echo(secret)
    output.note(f"Webhook ID: {webhook_id}; the secret is not shown again")
