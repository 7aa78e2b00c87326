"""The engine in the name of a tenant."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from jobforge.cli.way import Engine, Way, reached
from jobforge.config import load
from jobforge.errors import Forbidden, Invalid, NotFound, TenantRequired

if TYPE_CHECKING:
    from jobforge.calls import Call

T = TypeVar("T")

Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="SLUG|ID",
        help="The tenant; otherwise JOBFORGE_TENANT or jobforge.toml.",
    ),
]
JobId = Annotated[
    str, typer.Argument(metavar="ID", help="An id, or the first 8 characters of it or more.")
]

_SHORTEST = 8
_PREFIX = re.compile(r"[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Session:
    """In which every call is made for one tenant."""

    engine: Engine
    tenant_id: UUID

    def run(self, call: "Call[T]") -> T:
        return self.engine.run(call.for_tenant(self.tenant_id))

    def find_job(self, text: str) -> UUID:
        """The job whose id this is, or starts with."""
        from jobforge import calls

        if not _PREFIX.fullmatch(text):
            raise Invalid(f"{text!r} is no id of a job, nor its first {_SHORTEST} characters")
        digits = text.replace("-", "").lower()
        if len(digits) >= 32:
            return _uuid(text)
        # Ids are listed downwards, so those that start so come first below the last possible one.
        listed = self.run(calls.list_jobs(limit=2, before=UUID(digits.ljust(32, "f"))))
        found = [job.id for job in listed if job.id.hex.startswith(digits)]
        if not found:
            raise NotFound(f"the tenant has no job {text}…", hint="jobforge jobs list")
        if len(found) > 1:
            raise Invalid(f"several jobs start with {text}", hint=f"one of them is {found[0]}")
        return found[0]


@contextmanager
def session(way: Way, tenant: str | None) -> Iterator[Session]:
    with reached(way) as engine:
        yield Session(engine, find_tenant(engine, tenant))


def find_tenant(engine: Engine, flag: str | None) -> UUID:
    """The tenant that the flag or the settings name, by its id or its slug; else the key's own."""
    from jobforge import calls

    named = load(flags={"tenant": flag}).tenant
    own = engine.own_tenant() if named is None else None
    if own is not None:
        return own
    if named is None:
        raise TenantRequired(
            "no tenant is named",
            hint="give --tenant, set JOBFORGE_TENANT, or tenant in jobforge.toml; "
            "jobforge tenants list shows them",
        )
    try:
        return UUID(str(named))
    except ValueError:
        pass
    try:
        return engine.run(calls.find_tenant(str(named)))
    except NotFound as error:
        raise NotFound(error.message, hint="jobforge tenants list, or tenants create") from error
    except Forbidden as error:
        raise Forbidden(
            f"this key may not act for {named}",
            hint="it has a tenant of its own: name none, or that one by its id",
        ) from error


def find_tenant_or_all(engine: Engine, flag: str | None) -> UUID | None:
    """As `find_tenant`; None, for all tenants, when neither a flag nor the settings name one."""
    try:
        return find_tenant(engine, flag)
    except TenantRequired:
        return None


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is no id") from error
