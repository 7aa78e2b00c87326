"""Calls of servers and operators that monitor the whole installation."""

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import many
from jobforge.types.diagnostics import AppliedFile, Gauge, InstallationProblem, MissedRun


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """Read gauges; the `tenants` tenants with the most waiting jobs are listed separately."""
    return build_call("read_gauges", many(Gauge), tenants=tenants)


def find_problems() -> Call[list[InstallationProblem]]:
    return build_call("find_problems", many(InstallationProblem))


def find_unreadable() -> Call[list[InstallationProblem]]:
    return build_call("find_unreadable", many(InstallationProblem))


def list_missed_firings(*, limit: int = 50) -> Call[list[MissedRun]]:
    """List missed firings of schedules, latest first."""
    return build_call("list_missed_firings", many(MissedRun), limit=limit)


def list_migrations() -> Call[list[AppliedFile]]:
    return build_call("list_migrations", many(AppliedFile))
