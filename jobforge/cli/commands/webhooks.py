"""`jobforge webhooks`: where a tenant hears of its jobs, and what was sent there."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from jobforge.cli import output
from jobforge.cli.bulk import Yes, confirm, read_secret
from jobforge.cli.engine import Remote
from jobforge.cli.options import AsJson, Limit, Quiet, given, one_of
from jobforge.cli.tables import Form, in_form, print_listing
from jobforge.cli.tenant_session import Id, Session, in_session
from jobforge.cli.time_args import parse_duration
from jobforge.config import load
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.security.webhook_secrets import NewSecret
    from jobforge.types.webhooks import Delivery, DeliveryState, Webhook

app = typer.Typer(help="Tell receivers of yours what becomes of jobs.", no_args_is_help=True)

Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event", metavar="EVENT", help="start, success, failure, dead or end; repeatable."
    ),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option("--definition", metavar="KEY", help="Only jobs of this one; repeatable."),
]
Description = Annotated[str | None, typer.Option(help="What it is for.")]


@app.command("list")
@in_session
@in_form
def list_(scope: Session, form: Form, *, quiet: Quiet = False) -> None:
    """List webhooks, newest first."""
    from jobforge import calls
    from jobforge.types.webhooks import Webhook

    webhooks = scope.run(calls.list_webhooks(limit=200))
    print_listing(webhooks, Webhook, _line, form=form, quiet=quiet)


@app.command()
@in_session
def show(scope: Session, webhook: Id, *, as_json: AsJson = False) -> None:
    """Show a webhook. Its secret is not shown again."""
    from jobforge import calls

    found = scope.run(calls.get_webhook(scope.find("webhook", webhook)))
    output.print_thing(asdict(found), as_json=as_json)


@app.command()
@in_session
def create(
    scope: Session,
    url: Annotated[str, typer.Argument(help="Where messages are sent: a public https URL.")],
    *,
    event: Events = None,
    definition: Definitions = None,
    description: Description = None,
    as_json: AsJson = False,
) -> None:
    """Create a webhook and print the secret that signs its messages. It is shown this once.

    Without --event it hears of success and dead."""
    settings = given(url=url, events=event, definitions=definition, description=description)
    webhook_id, secret = _create(scope, settings)
    _print_secret(webhook_id, secret, as_json=as_json)


@app.command()
@in_session
def edit(
    scope: Session,
    webhook: Id,
    *,
    url: Annotated[str | None, typer.Option(help="Where messages are sent.")] = None,
    event: Events = None,
    definition: Definitions = None,
    all_definitions: Annotated[
        bool, typer.Option("--all-definitions", help="Jobs of all definitions.")
    ] = False,
    description: Description = None,
    enabled: Annotated[
        bool | None,
        typer.Option("--enable/--disable", help="Enabling forgets why it was disabled."),
    ] = None,
    secret: Annotated[
        bool,
        typer.Option(
            "--secret",
            help="Ask for the secret, or read it from stdin. Required when --url has another"
            " scheme, host or port.",
        ),
    ] = False,
) -> None:
    """Change a webhook. Omitted settings are unchanged."""
    from jobforge import calls

    changes = given(
        url=url, events=event, definitions=definition, description=description, enabled=enabled
    )
    if all_definitions:
        changes["definitions"] = None
    if not changes and not secret:
        raise Invalid("nothing to change is named", hint="jobforge webhooks edit --help")
    _check_url(scope, url)
    found = scope.find("webhook", webhook)
    sealed = None
    if secret and isinstance(scope.engine, Remote):
        changes["secret"] = read_secret("secret")  # the server seals it
    elif secret:
        sealed = _sealed(scope, found, read_secret("secret"))
    scope.run(calls.edit_webhook(found, changes, secret=sealed))
    output.note(f"{found} is changed")


@app.command()
@in_session
def delete(scope: Session, webhook: Id, *, yes: Yes = False) -> None:
    """Delete a webhook. Messages that wait for it are not sent any more."""
    from jobforge import calls

    found = scope.find("webhook", webhook)
    if not yes:
        confirm(f"delete the webhook to {scope.run(calls.get_webhook(found)).url}?")
    scope.run(calls.delete_webhook(found))
    output.note(f"{found} is deleted")


@app.command()
@in_session
def rotate(
    scope: Session,
    webhook: Id,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="For so long the old secret signs too.")
    ] = "1d",
    as_json: AsJson = False,
) -> None:
    """Give a webhook a new secret and print it. Until the overlap ends both sign."""
    overlap_s = parse_duration(overlap, "--overlap")
    found = scope.find("webhook", webhook)
    secret = _rotate(scope, found, overlap_s)
    _print_secret(found, secret, as_json=as_json)


@app.command("test")
@in_session
def send_test(scope: Session, webhook: Id, *, as_json: AsJson = False) -> None:
    """Send a test message and print the id of the delivery."""
    from jobforge import calls

    delivery_id = scope.run(calls.test_webhook(scope.find("webhook", webhook)))
    output.print_value("delivery_id", delivery_id, as_json=as_json)


@app.command()
@in_session
@in_form
def deliveries(
    scope: Session,
    webhook: Id,
    form: Form,
    *,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="pending, delivered or failed.")
    ] = None,
    limit: Limit = 50,
    quiet: Quiet = False,
) -> None:
    """List what was sent to a webhook, newest first. --json has the receiver's answers."""
    from jobforge import calls
    from jobforge.types.webhooks import Delivery

    webhook_id = scope.find("webhook", webhook)
    found = scope.run(calls.list_deliveries(webhook_id, _state(state), limit=limit))
    print_listing(found, Delivery, _delivery_line, form=form, quiet=quiet)


@app.command()
@in_session
def redeliver(
    scope: Session,
    webhook: Id,
    delivery: Annotated[UUID, typer.Argument(metavar="DELIVERY", help="Its id.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Send a message again, under the same id. Prints the job that does it."""
    from jobforge import calls

    job_id = scope.run(calls.redeliver(scope.find("webhook", webhook), delivery))
    output.print_value("job_id", job_id, as_json=as_json)


def _create(scope: Session, settings: dict[str, Json]) -> tuple[UUID, str]:
    if isinstance(scope.engine, Remote):
        from jobforge.client.requests import create_webhook

        made = scope.engine.transport.run(create_webhook(settings, tenant_id=scope.tenant_id))
        return made.id, made.secret
    from jobforge import calls
    from jobforge.security.webhook_secrets import make_id

    _check_url(scope, settings["url"])
    webhook_id = make_id()
    secret = _new_secret(scope, webhook_id)
    scope.run(calls.create_webhook(webhook_id, settings, secret=secret.sealed))
    return webhook_id, secret.text


def _rotate(scope: Session, webhook_id: UUID, overlap_s: float) -> str:
    if isinstance(scope.engine, Remote):
        from jobforge.client.requests import rotate_webhook

        request = rotate_webhook(webhook_id, overlap_s=overlap_s, tenant_id=scope.tenant_id)
        return scope.engine.transport.run(request)
    from jobforge import calls

    secret = _new_secret(scope, webhook_id)
    scope.run(calls.rotate_webhook(webhook_id, secret=secret.sealed, overlap_s=overlap_s))
    return secret.text


def _new_secret(scope: Session, webhook_id: UUID) -> "NewSecret":
    from jobforge.security.vault import open_vault
    from jobforge.security.webhook_secrets import new_secret

    key = scope.run(open_vault(load()).key_of(scope.tenant_id))
    return new_secret(key, webhook_id)


def _sealed(scope: Session, webhook_id: UUID, secret: str) -> bytes:
    from jobforge.security.vault import open_vault
    from jobforge.security.webhook_secrets import sealed_again

    key = scope.run(open_vault(load()).key_of(scope.tenant_id))
    return sealed_again(key, webhook_id, secret)


def _check_url(scope: Session, url: str | None) -> None:
    """A server does so itself."""
    if url is None or isinstance(scope.engine, Remote):
        return
    from jobforge.connectors.egress import policy_of, read_url

    read_url(url, policy_of(load()))


def _state(text: str | None) -> "DeliveryState | None":
    from jobforge.types.webhooks import DeliveryState

    return None if text is None else DeliveryState(one_of("state", text, DeliveryState))


def _line(webhook: "Webhook") -> dict[str, Json]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": _listed(webhook.events),
        "definitions": _listed(webhook.definitions or ["all"]),
        "standing": "enabled" if webhook.enabled else webhook.disabled_reason,
        "created_at": webhook.created_at,
    }


def _delivery_line(delivery: "Delivery") -> dict[str, Json]:
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


def _listed(words: Sequence[str]) -> str:
    return ",".join(words)


def _print_secret(webhook_id: UUID, secret: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"id": str(webhook_id), "secret": secret})
        return
    typer.echo(secret)
    output.note(f"id {webhook_id}; the secret is not shown again")
