"""Calls of servers and operators that look at the whole installation."""

from jobforge import rows
from jobforge.calls.call import Call
from jobforge.condition import AppliedFile, Gauge, Trouble


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """`tenants` is how many of those with the most waiting jobs are told apart."""
    return Call(
        "select gauge, subject, state, value from jobforge.read_gauges(%s::integer)",
        (tenants,),
        rows.gauges,
    )


def find_troubles() -> Call[list[Trouble]]:
    return Call(
        "select kind, subject, tenant_id, since, detail from jobforge.find_troubles()",
        (),
        rows.troubles,
    )


def list_migrations() -> Call[list[AppliedFile]]:
    return Call(
        "select name, checksum, applied_at from jobforge.list_migrations()", (), rows.applied_files
    )
