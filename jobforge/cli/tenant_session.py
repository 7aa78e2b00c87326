"""Find a command's tenant and run calls for it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast
from uuid import UUID

import typer

from jobforge.cli import completions
from jobforge.cli.engine import CliEngine, ConnectionOptions, connection_options, open_engine
from jobforge.cli.options import CommandFunction, replace_parameter
from jobforge.config import load
from jobforge.errors import Denied, Forbidden, Invalid, NotFound, TenantRequired

if TYPE_CHECKING:
    from jobforge.calls import Call

T = TypeVar("T")

TenantOption = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="SLUG|ID",
        autocompletion=completions.complete_tenants,
        help="Slug or ID of the tenant. Default: JOBFORGE_TENANT or jobforge.toml.",
    ),
]
TenantOrAllOption = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="SLUG|ID|*",
        autocompletion=completions.complete_tenants,
        help="Slug or ID of the tenant, or '*' for all. Default: JOBFORGE_TENANT, "
        "jobforge.toml, or all.",
    ),
]
ResourceKind = Literal["event", "job", "trigger", "webhook", "workflow"]


def _complete_ids(context: typer.Context) -> list[str]:
    """Return the newest IDs of the command group's resource, for shell completion."""
    kind = str(context.parent and context.parent.info_name).removesuffix("s")
    named = context.params.get("tenant")

    def read(engine: CliEngine) -> list[str]:
        newest = _list_call(cast("ResourceKind", kind))(limit=_MAX_COMPLETIONS)
        return [
            str(each.id) for each in TenantSession(engine, find_tenant(engine, named)).run(newest)
        ]

    return completions.complete_from_engine(context, read)


IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=_complete_ids,
        help="ID, or at least its first 8 characters.",
    ),
]

_SHORTEST = 8
_ALL_TENANTS = "*"
_MAX_COMPLETIONS = 20
_PREFIX = re.compile(r"[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TenantSession:
    """An engine and the tenant that all calls are made for."""

    engine: CliEngine
    tenant_id: UUID

    def run(self, call: "Call[T]") -> T:
        return self.engine.run(call.for_tenant(self.tenant_id))

    def find_id(self, kind: ResourceKind, text: str) -> UUID:
        """Return the ID of the tenant's resource with this ID, or the only one with this prefix.

        Raises Invalid for an ambiguous prefix, NotFound if no ID has it. A full ID is not looked
        up.
        """
        if not _PREFIX.fullmatch(text):
            raise Invalid(
                f"{text!r} is not a valid {kind} ID (full ID or at least {_SHORTEST} characters)",
                hint=f"jobforge {kind}s list",
            )
        digits = text.replace("-", "").lower()
        if len(digits) >= 32:
            return _parse_uuid(text)
        # Lists are in descending order of ID: those with the prefix come first before its last ID.
        listed = self.run(_list_call(kind)(limit=2, before=UUID(digits.ljust(32, "f"))))
        found = [each.id for each in listed if each.id.hex.startswith(digits)]
        if not found:
            raise NotFound(f"{kind.capitalize()} {text}… not found", hint=f"jobforge {kind}s list")
        if len(found) > 1:
            raise Invalid(
                f"Ambiguous {kind} ID {text}: several IDs start with it",
                hint=f"Add more characters, as in {found[0]}",
            )
        return UUID(str(found[0]))


def _list_call(kind: ResourceKind) -> "Callable[..., Call[list[Any]]]":
    from jobforge import calls

    lists: dict[ResourceKind, Callable[..., Call[list[Any]]]] = {
        "event": calls.list_events,
        "job": calls.list_jobs,
        "trigger": calls.list_triggers,
        "webhook": calls.list_webhooks,
        "workflow": calls.list_workflows,
    }
    return lists[kind]


def with_tenant_session(command: CommandFunction) -> CommandFunction:
    """Decorate a command: pass it a TenantSession `scope`; add tenant and connection options."""

    @wraps(command)
    def run(
        *,
        tenant: str | None,
        database_url: str | None,
        server: str | None,
        api_key: str | None,
        **arguments: object,
    ) -> None:
        with open_tenant_session(ConnectionOptions(database_url, server, api_key), tenant) as scope:
            command(scope=scope, **arguments)

    return replace_parameter(run, "scope", {"tenant": TenantOption, **connection_options(command)})


@contextmanager
def open_tenant_session(
    connection: ConnectionOptions, tenant: str | None
) -> Iterator[TenantSession]:
    with open_engine(connection) as engine:
        yield TenantSession(engine, find_tenant(engine, tenant))


def find_tenant(engine: CliEngine, flag: str | None) -> UUID:
    """Return the tenant in the flag or the settings (ID or slug), or the API key's tenant.

    Raises TenantRequired if there is none.
    """
    from jobforge import calls

    named = load(flags={"tenant": flag}).tenant
    own = engine.own_tenant() if named is None else None
    if own is not None:
        return own
    if named is None:
        raise TenantRequired(
            "No tenant specified",
            hint="Pass --tenant, set JOBFORGE_TENANT, or set tenant in jobforge.toml; "
            "jobforge tenants list shows all tenants",
        )
    try:
        return UUID(str(named))
    except ValueError:
        pass
    try:
        return engine.run(calls.find_tenant(str(named)))
    except NotFound as error:
        hint = "jobforge tenants list, or jobforge tenants create"
        raise NotFound(error.message, detail=error.detail, hint=hint) from error
    except Forbidden as error:
        raise Forbidden(
            f"This API key is not allowed to act for tenant {str(named)!r}",
            hint="Omit the tenant to use the key's tenant",
        ) from error
    except Denied as error:
        raise Denied(
            f"This login is not allowed to look up tenant {str(named)!r} by its slug",
            hint="Use the tenant's ID, or a login in jobforge_service, jobforge_worker or "
            "jobforge_admin",
        ) from error


def find_tenant_or_all(engine: CliEngine, flag: str | None) -> UUID | None:
    """Return the tenant, or None for all tenants: for `*`, or if no tenant is set."""
    if load(flags={"tenant": flag}).tenant == _ALL_TENANTS:
        return None
    try:
        return find_tenant(engine, flag)
    except TenantRequired:
        return None


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is not a valid ID") from error
