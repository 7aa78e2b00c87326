"""Calls of servers and operators that monitor the whole installation."""

from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.health import AppliedFile, Gauge, Miss, Trouble


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """Read gauges; the `tenants` tenants with the most waiting jobs are listed separately."""
    return Call(
        "select gauge, subject, state, value from jobforge.read_gauges(%s::integer)",
        (tenants,),
        _gauges,
    )


def find_problems() -> Call[list[Trouble]]:
    return Call(
        "select kind, subject, tenant_id, since, detail from jobforge.find_problems()",
        (),
        _troubles,
    )


def find_unreadable() -> Call[list[Trouble]]:
    return Call(
        "select kind, subject, tenant_id, since, detail from jobforge.find_unreadable()",
        (),
        _troubles,
    )


def list_missed_firings(*, limit: int = 50) -> Call[list[Miss]]:
    """List missed firings of schedules, latest first."""
    return Call(
        """
        select tenant_id, trigger_id, label, fire_at, at, kind, outcome, reason
          from jobforge.list_missed_firings(%s::integer)
        """,
        (limit,),
        _misses,
    )


def list_migrations() -> Call[list[AppliedFile]]:
    return Call(
        "select name, checksum, applied_at from jobforge.list_migrations()", (), _applied_files
    )


def _gauges(rows: Rows) -> list[Gauge]:
    return list(map(Gauge._make, rows))


def _troubles(rows: Rows) -> list[Trouble]:
    return list(map(Trouble._make, rows))


def _misses(rows: Rows) -> list[Miss]:
    return list(map(Miss._make, rows))


def _applied_files(rows: Rows) -> list[AppliedFile]:
    return list(map(AppliedFile._make, rows))
