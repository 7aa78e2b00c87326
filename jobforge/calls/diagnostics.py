"""Calls of servers and operators that monitor the whole installation."""

from jobforge.calls.call import Call
from jobforge.calls.results import many
from jobforge.types.diagnostics import AppliedFile, Gauge, InstallationProblem, MissedRun


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """Read gauges; the `tenants` tenants with the most waiting jobs are listed separately."""
    return Call("read_gauges", {"tenants": tenants}, many(Gauge))


def find_problems() -> Call[list[InstallationProblem]]:
    return Call("find_problems", {}, many(InstallationProblem))


def find_unreadable() -> Call[list[InstallationProblem]]:
    return Call("find_unreadable", {}, many(InstallationProblem))


def list_missed_firings(*, limit: int = 50) -> Call[list[MissedRun]]:
    """List missed firings of schedules, latest first."""
    return Call("list_missed_firings", {"limit": limit}, many(MissedRun))


def list_migrations() -> Call[list[AppliedFile]]:
    return Call("list_migrations", {}, many(AppliedFile))
