"""Calls of servers and operators that look at the whole installation."""

from jobforge.calls.call import Call
from jobforge.condition import AppliedFile, Gauge, Trouble
from jobforge.rows import Rows


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """`tenants` is how many of those with the most waiting jobs are told apart."""
    return Call(
        "select gauge, subject, state, value from jobforge.read_gauges(%s::integer)",
        (tenants,),
        _gauges,
    )


def find_troubles() -> Call[list[Trouble]]:
    return Call(
        "select kind, subject, tenant_id, since, detail from jobforge.find_troubles()",
        (),
        _troubles,
    )


def list_migrations() -> Call[list[AppliedFile]]:
    return Call(
        "select name, checksum, applied_at from jobforge.list_migrations()", (), _applied_files
    )


def _gauges(rows: Rows) -> list[Gauge]:
    return list(map(Gauge._make, rows))


def _troubles(rows: Rows) -> list[Trouble]:
    return list(map(Trouble._make, rows))


def _applied_files(rows: Rows) -> list[AppliedFile]:
    return list(map(AppliedFile._make, rows))
