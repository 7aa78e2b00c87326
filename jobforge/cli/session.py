"""A connection to the engine, and one in the name of a tenant."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from jobforge.cli.database import find_url
from jobforge.config import load
from jobforge.errors import Invalid, NotFound, TenantRequired, Unavailable

if TYPE_CHECKING:
    from jobforge.calls import Call
    from jobforge.db import Connection

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
    """A connection on which every call is made for one tenant."""

    conn: "Connection"
    tenant_id: UUID

    def run(self, call: "Call[T]") -> T:
        from jobforge import db

        return db.run(self.conn, call.for_tenant(self.tenant_id))

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
def connected(database_url: str | None) -> Iterator["Connection"]:
    """A connection of which the engine's errors are ours."""
    from jobforge import db

    with explained(), db.connect(find_url(database_url)) as conn:
        yield conn


@contextmanager
def explained() -> Iterator[None]:
    """Within it, a database that cannot be reached is told with what to do."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(
            f"the database cannot be reached: {error.message}",
            hint="is it running, and is the URL right? --database-url or JOBFORGE_DATABASE_URL",
        ) from error


@contextmanager
def session(database_url: str | None, tenant: str | None) -> Iterator[Session]:
    with connected(database_url) as conn:
        yield Session(conn, find_tenant(conn, tenant))


def find_tenant(conn: "Connection", flag: str | None) -> UUID:
    """The tenant that the flag or the settings name, by its id or its slug."""
    from jobforge import calls, db

    named = load(flags={"tenant": flag}).tenant
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
        return db.run(conn, calls.find_tenant(str(named)))
    except NotFound as error:
        raise NotFound(error.message, hint="jobforge tenants list, or tenants create") from error


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is no id") from error
