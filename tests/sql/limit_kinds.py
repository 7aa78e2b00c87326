"""The four kinds of limits: how to set each, which jobs share it, and how to reset them all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster import Connection
from sql.engine import TENANT_A, TENANT_B, Json, call, definition

Settings = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Kind:
    """Sets limits of one kind for definition `test`; jobs with equal values in these columns share
    them.
    """

    put: Callable[[Connection, Settings], Any]
    subject: tuple[str, ...]

    def cap(self, conn: Connection, max_running: int | None) -> None:
        self.put(conn, {"max_running": max_running})


def _put_definition(conn: Connection, settings: Settings) -> None:
    definition(conn, **settings)


def _put_keys(conn: Connection, settings: Settings) -> None:
    per_key = {
        "max_running": "max_running_per_key",
        "rate_limit": "rate_limit_per_key",
        "rate_period_s": "rate_period_per_key_s",
        "rate_burst": "rate_burst_per_key",
    }
    definition(conn, **{per_key[name]: value for name, value in settings.items()})


def _put_tenants(conn: Connection, settings: Settings) -> None:
    for tenant in (TENANT_A, TENANT_B):
        call(conn, "put_tenant", tenant_id=tenant, settings=settings)


def _put_queue(conn: Connection, settings: Settings) -> None:
    call(conn, "put_queue", queue="default", settings=settings)


KINDS = {
    "definition": Kind(_put_definition, ("definition",)),
    "tenant": Kind(_put_tenants, ("tenant_id",)),
    "key": Kind(_put_keys, ("tenant_id", "definition", "limit_key")),
    "queue": Kind(_put_queue, ("queue",)),
}


def reset_all(conn: Connection) -> None:
    """Delete all jobs, limits and pauses; create the definitions `test` and `plain`."""
    conn.execute(
        "truncate jobforge.jobs, jobforge.finished_jobs, jobforge.attempts, jobforge.definitions, "
        "jobforge.tenants, jobforge.queues, jobforge.rate_limits"
    )
    definition(conn)
    definition(conn, "plain")
