"""The context of a command: its shared options, and the engine and tenant that they select."""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

import typer

from jobforge import calls
from jobforge.calls import Call
from jobforge.cli.database import connect
from jobforge.cli.engine import CliEngine, find_url, open_engine
from jobforge.cli.listing_output import ListingFormat
from jobforge.config import Config, load
from jobforge.errors import Denied, Forbidden, Invalid, Json, NotFound, TenantRequired

if TYPE_CHECKING:
    from jobforge.db.connection import Connection
    from jobforge.security.vault import TenantKey
    from jobforge.types.jobs import JobFilter

T = TypeVar("T")
ResourceKind = Literal["event", "job", "trigger", "webhook", "workflow"]


_SHORTEST = 8
_ALL_TENANTS = "*"
_PREFIX = re.compile(r"[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)
_OPTIONS_OF_SETTINGS = {
    "database_url": "database_url",
    "server": "server",
    "key": "api_key",
    "tenant": "tenant",
}


@dataclass(frozen=True, slots=True)
class TenantSession:
    """An engine and the tenant that all calls are made for."""

    engine: CliEngine
    tenant_id: UUID

    def run(self, call: Call[T]) -> T:
        return self.engine.run(call.for_tenant(self.tenant_id))

    def open_tenant_key(self) -> "TenantKey | None":
        """Return the key that seals the tenant's secrets; None if a server has it."""
        return self.engine.open_tenant_key(self.tenant_id)

    def prepare_connector(self, config_id: UUID, config: Mapping[str, Json]) -> Mapping[str, Json]:
        """Check a connector configuration, and seal its secrets; a server does so itself."""
        return self.engine.prepare_connector(config_id, config, self.tenant_id)

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
        listed = self.run(list_call(kind)(limit=2, before=UUID(digits.ljust(32, "f"))))
        found = [each.id for each in listed if each.id.hex.startswith(digits)]
        if not found:
            raise NotFound(f"{kind.capitalize()} {text}… not found", hint=f"jobforge {kind}s list")
        if len(found) > 1:
            raise Invalid(
                f"Ambiguous {kind} ID {text}: several IDs start with it",
                hint=f"Add more characters, as in {found[0]}",
            )
        return UUID(str(found[0]))


class CommandContext(typer.Context):
    """The context of a command with shared options (shared_options.py).

    The settings, the engine and the tenant are determined on first use, and at most once. The
    tenant may also be an argument.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - as in the base class
        super().__init__(*args, **settings)
        self._resources = ExitStack()

    def invoke(self, callback: Callable[..., T], /, *args: Any, **arguments: Any) -> T:  # noqa: ANN401 - as in the base class
        with self._resources:
            return super().invoke(callback, *args, **arguments)

    def load_config(self, **flags: Json) -> Config:
        """Load the settings, with more options than the shared ones."""
        shared = {name: self.params.get(option) for name, option in _OPTIONS_OF_SETTINGS.items()}
        return load(flags=shared | flags)

    @cached_property
    def config(self) -> Config:
        return self.load_config()

    @property
    def database_url(self) -> str:
        return find_url(self.config)

    def connect(self) -> "Connection":
        return connect(self.database_url)

    @cached_property
    def engine(self) -> CliEngine:
        return self._resources.enter_context(open_engine(self.config))

    @cached_property
    def session(self) -> TenantSession:
        """The engine and the tenant of the command. Raises TenantRequired."""
        return TenantSession(self.engine, find_tenant(self.engine, self.config.tenant))

    @property
    def tenant_id_or_all(self) -> UUID | None:
        """The tenant, or None for all tenants: for `*`, or if no tenant is set."""
        return find_tenant_or_all(self.engine, self.config.tenant)

    def run(self, call: Call[T]) -> T:
        """Run a call for the tenant of the command."""
        return self.session.run(call)

    @property
    def listing_format(self) -> ListingFormat:
        names = (each.name for each in fields(ListingFormat) if each.name in self.params)
        return ListingFormat(**{name: self.params[name] for name in names})

    @property
    def job_filter(self) -> "JobFilter":
        from jobforge.cli.filters import parse_filter

        names = ("state", "definition", "queue", "tag", "where")
        return parse_filter(**{name: self.params[name] for name in names})


def list_call(kind: ResourceKind) -> Callable[..., Call[list[Any]]]:
    """Return the function that builds the call which lists these resources."""
    lists: dict[ResourceKind, Callable[..., Call[list[Any]]]] = {
        "event": calls.list_events,
        "job": calls.list_jobs,
        "trigger": calls.list_triggers,
        "webhook": calls.list_webhooks,
        "workflow": calls.list_workflows,
    }
    return lists[kind]


def find_tenant(engine: CliEngine, named: str | None) -> UUID:
    """Return the tenant with this ID or slug, or the API key's tenant.

    Raises TenantRequired if there is none.
    """
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
        return UUID(named)
    except ValueError:
        pass
    try:
        return engine.run(calls.find_tenant(named))
    except NotFound as error:
        hint = "jobforge tenants list, or jobforge tenants create"
        raise NotFound(error.message, detail=error.detail, hint=hint) from error
    except Forbidden as error:
        raise Forbidden(
            f"This API key is not allowed to act for tenant {named!r}",
            hint="Omit the tenant to use the key's tenant",
        ) from error
    except Denied as error:
        raise Denied(
            f"This login is not allowed to look up tenant {named!r} by its slug",
            hint="Use the tenant's ID, or a login in jobforge_service, jobforge_worker or "
            "jobforge_admin",
        ) from error


def find_tenant_or_all(engine: CliEngine, named: str | None) -> UUID | None:
    """Return the tenant, or None for all tenants: for `*`, or if no tenant is named."""
    if named == _ALL_TENANTS:
        return None
    try:
        return find_tenant(engine, named)
    except TenantRequired:
        return None


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is not a valid ID") from error
