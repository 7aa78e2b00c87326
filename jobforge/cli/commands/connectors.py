"""`jobforge connectors`: manage a tenant's connector configurations."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID, uuid4

import typer

from jobforge import calls
from jobforge.cli import job_wait, output
from jobforge.cli.bulk import confirm, read_secret
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext, TenantSession
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson, Yes
from jobforge.cli.shared_options import LISTING, QUIET, TENANT
from jobforge.cli.time_args import parse_duration
from jobforge.errors import Invalid, Json, NotFound
from jobforge.types.connectors import ConnectorConfig
from jobforge.types.jobs import JobRequest

app = CommandGroup(TENANT)

ConfigArgument = Annotated[
    str, typer.Argument(metavar="NAME|ID", help="Name or ID of the configuration.")
]
HeadersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME:VALUE",
        help="HTTP header; {{secret.name}} inserts a secret. Repeatable.",
    ),
]
SecretReferencesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--secret-from",
        metavar="NAME=env:X|file:X",
        help="Secret in a variable or file of the operator. Repeatable.",
    ),
]
SealedSecretsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="Secret to encrypt; prompts for its value or reads a line of stdin. Repeatable.",
    ),
]


@app.command("list", options=QUIET + LISTING + TENANT)
def list_(context: CommandContext) -> None:
    """List configurations by name."""
    configs = context.run(calls.list_connector_configs(limit=200))
    print_listing([configs], ConnectorConfig, _to_row, form=context.listing_format)


@app.command()
def show(context: CommandContext, config: ConfigArgument, *, as_json: AsJson = False) -> None:
    """Show a configuration without its secrets."""
    output.print_record(asdict(_find(context.session, config)), as_json=as_json)


@app.command()
def create(
    context: CommandContext,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name by which jobs refer to the configuration.")
    ],
    url: Annotated[
        str, typer.Argument(metavar="URL", help="URL; requests can only go to its origin.")
    ],
    *,
    header: HeadersOption = None,
    secret: SealedSecretsOption = None,
    secret_from: SecretReferencesOption = None,
) -> None:
    """Create a configuration and print its ID.

    With a database, the setting secret_key is required to encrypt secrets.
    """
    config: dict[str, Json] = {
        "name": name,
        "settings": {"url": url, "headers": _parse_headers(header)},
        "secrets": _read_secrets(secret, secret_from),
    }
    config_id = uuid4()
    prepared = context.session.prepare_connector(config_id, config)
    typer.echo(str(context.run(calls.create_connector_config(config_id, prepared))))


@app.command()
def edit(
    context: CommandContext,
    config: ConfigArgument,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="New name.")] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="New URL.")] = None,
    header: HeadersOption = None,
    secret: SealedSecretsOption = None,
    secret_from: SecretReferencesOption = None,
    remove_secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Secret to remove. Repeatable."),
    ] = None,
) -> None:
    """Change a configuration. Omitted settings are unchanged; --header replaces all headers.

    If --url has another scheme, host or port, pass all secrets again or remove them.
    """
    secrets = {**_read_secrets(secret, secret_from), **dict.fromkeys(remove_secret or ())}
    found = _find(context.session, config)
    changes: dict[str, Json] = {} if name is None else {"name": name}
    if url is not None or header is not None:
        changes["settings"] = {
            "url": url or found.settings["url"],
            "headers": _parse_headers(header)
            if header is not None
            else found.settings.get("headers", {}),
        }
    if secrets:
        changes["secrets"] = secrets
    if not changes:
        raise Invalid("No changes specified", hint="jobforge connectors edit --help")
    prepared = context.session.prepare_connector(found.id, changes)
    context.run(calls.edit_connector_config(found.id, prepared))
    output.note(f"Configuration {found.name} updated")


@app.command()
def delete(context: CommandContext, config: ConfigArgument, *, yes: Yes = False) -> None:
    """Delete a configuration and its secrets. Jobs that use it will fail."""
    found = _find(context.session, config)
    if not yes:
        confirm(f"delete configuration {found.name!r} and its secrets")
    context.run(calls.delete_connector_config(found.id))
    output.note(f"Configuration {found.name} deleted")


@app.command("test")
def try_out(
    context: CommandContext,
    config: ConfigArgument,
    path: Annotated[
        str,
        typer.Argument(
            show_default=False,
            metavar="PATH",
            help="Path or URL in the configuration's origin. Default: the configured URL.",
        ),
    ] = "",
    *,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Maximum wait.")] = "60s",
    as_json: AsJson = False,
) -> None:
    """Send a GET request and print the response. The request runs as a job."""
    timeout_s = parse_duration(timeout, "--timeout")
    found = _find(context.session, config)
    payload = {"config": found.name, "url": path or found.settings["url"]}
    # One attempt: the user is waiting and can retry manually.
    request = JobRequest("connector.http.request", payload, max_attempts=1)
    enqueued = context.run(calls.enqueue_job(request))
    output.note(f"{enqueued.job_id} {enqueued.status}")
    ended = job_wait.wait_for_job(
        context.session, enqueued.job_id, timeout_s=timeout_s, on_note=None
    )
    job_wait.print_finished_job(ended, as_json=as_json)


def _find(session: TenantSession, text: str) -> ConnectorConfig:
    try:
        return session.run(calls.get_connector_config(UUID(text)))
    except ValueError:
        pass
    for config in session.run(calls.list_connector_configs(limit=200)):
        if config.name == text:
            return config
    raise NotFound(f"Configuration {text!r} not found", hint="jobforge connectors list")


def _parse_headers(given: list[str] | None) -> dict[str, str]:
    headers = {}
    for item in given or ():
        name, colon, value = item.partition(":")
        if not colon or not name:
            raise Invalid("--header must have the form NAME:VALUE", field="header")
        headers[name.strip()] = value.strip()
    return headers


def _read_secrets(sealed: list[str] | None, references: list[str] | None) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for item in references or ():
        name, sign, where = item.partition("=")
        if not sign:
            raise Invalid(
                "--secret-from must have the form NAME=env:X or NAME=file:X", field="secret_from"
            )
        found[name] = {"from": where}
    for name in sealed or ():
        found[name] = {"value": read_secret(name)}
    return found


def _to_row(config: ConnectorConfig) -> dict[str, Json]:
    return {
        "id": config.id,
        "name": config.name,
        "connector": config.connector,
        "url": config.settings.get("url"),
        "secrets": ", ".join(f"{name} ({where})" for name, where in config.secrets.items()),
        "updated_at": config.updated_at,
    }
