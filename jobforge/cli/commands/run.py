"""`jobforge run`: run one job of an app in this process, for debugging.

No queue, no worker process, no limits, no retries. Only the handler uses the database, and the
lookup of a tenant's slug.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast
from uuid import UUID

import typer

from jobforge.cli import job_wait, output
from jobforge.cli.app_target import find_target
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext, find_tenant
from jobforge.cli.dev_setup import format_sample_arguments
from jobforge.cli.engine import open_engine
from jobforge.cli.options import PayloadArgument
from jobforge.cli.payload_args import parse_payload
from jobforge.cli.shared_options import tenant_options
from jobforge.config import Config
from jobforge.errors import Invalid, InvalidPayload, Json, NotFound
from jobforge.redact import register_secret
from jobforge.sdk.context import Context
from jobforge.sdk.definition import Definition
from jobforge.sdk.loader import load_app
from jobforge.sdk.outcome_exceptions import AttemptSuspended
from jobforge.sdk.verdict import verdict_from_error
from jobforge.sdk.worker_requests import SaveStep, WorkerRequest
from jobforge.security.secret_lookup import Secrets
from jobforge.types.job_history import JobEvent

T = TypeVar("T")

_NO_TENANT = UUID(int=0)

app = CommandGroup()


@app.command(options=(tenant_options,))
def run(
    context: CommandContext,
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help="Key of the definition.")],
    payload: PayloadArgument = None,
    *,
    app_: Annotated[
        str | None,
        typer.Option("--app", metavar="APP", help="App: app.py, app.py:name or package.module."),
    ] = None,
) -> None:
    """Run a job in this process and print its result as JSON."""
    config = context.load_config(app=app_)
    found = _find(load_app(find_target(config)).definitions, definition)
    job = found.fake_claimed_job(parse_payload(payload or []), _find_tenant(config))
    try:
        arguments = found.parse_arguments_json(job.version, job.payload_json)
    except InvalidPayload as error:
        raise InvalidPayload(
            error.message, field=error.field, hint=f"jobforge run {format_sample_arguments(found)}"
        ) from error
    channel = PrintingChannel(job.tenant_id, config.secrets_dir)
    output.print_json(_invoke(found, Context(job, channel), arguments))


@dataclass(frozen=True, slots=True)
class PrintingChannel:
    """The channel of a job in this process. Prints the job's notes and steps."""

    tenant_id: UUID
    secrets_dir: Path | None

    def note(self, kind: str, data: dict[str, Json]) -> None:
        event = JobEvent(at=datetime.now(UTC), kind=kind, actor=None, data=data)
        output.note(job_wait.format_note(event))

    def secret(self, name: str) -> str:
        value = Secrets(self.secrets_dir).lookup(name)
        register_secret(value)
        return value

    def request(self, request: WorkerRequest[T]) -> T:
        if not isinstance(request, SaveStep):
            raise Invalid(f"`jobforge run` has no worker, which {request.kind} requires")
        output.note(f"step {request.name}: {request.result!r}")
        return cast("T", None)

    async def request_async(self, request: WorkerRequest[T]) -> T:
        return self.request(request)


def _find(definitions: Mapping[str, Definition[..., Any]], key: str) -> Definition[..., Any]:
    try:
        return definitions[key]
    except KeyError:
        known = ", ".join(sorted(definitions)) or "none"
        raise NotFound(f"Job {key!r} not found in the app", hint=f"Use one of: {known}") from None


def _find_tenant(config: Config) -> UUID:
    """Return the tenant's ID. Only a slug is looked up in the engine."""
    if config.tenant is None:
        return _NO_TENANT
    try:
        return UUID(config.tenant)
    except ValueError:
        with open_engine(config) as engine:
            return find_tenant(engine, config.tenant)


def _invoke(definition: Definition[..., Any], context: Context, arguments: dict[str, Any]) -> Json:
    try:
        result = _call(definition, context, arguments)
    except (Exception, AttemptSuspended) as error:
        _print_failure(error, definition)
        raise typer.Exit(1) from error
    return definition.dump(result)


def _call(definition: Definition[..., Any], context: Context, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 - the handler's return type
    result = definition.invoke(context, arguments)
    if not definition.is_async:
        return result

    async def finish() -> Any:  # noqa: ANN401 - the handler's return type
        return await result

    return asyncio.run(finish())


def _print_failure(error: BaseException, definition: Definition[..., Any]) -> None:
    verdict = verdict_from_error(error, definition.settings)
    trace = (verdict.error or {}).get("traceback", "")
    typer.echo(trace or str(error), err=True)
    output.note(f"A worker would record the attempt as {verdict.outcome}")
