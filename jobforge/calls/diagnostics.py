"""Calls of servers and operators that monitor the whole installation."""

from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.diagnostics import AppliedFile, Gauge, InstallationProblem, MissedRun


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """Read gauges; the `tenants` tenants with the most waiting jobs are listed separately."""
    return Call(
        "select gauge, subject, state, value from jobforge.read_gauges(%s::integer)",
        (tenants,),
        _gauges,
    )


def find_problems() -> Call[list[InstallationProblem]]:
    return Call(
        "select kind, subject, tenant_id, since, detail from jobforge.find_problems()",
        (),
        _problems,
    )


def find_unreadable() -> Call[list[InstallationProblem]]:
    return Call(
        "select kind, subject, tenant_id, since, detail from jobforge.find_unreadable()",
        (),
        _problems,
    )


def list_missed_firings(*, limit: int = 50) -> Call[list[MissedRun]]:
    """List missed firings of schedules, latest first."""
    return Call(
        """
        select tenant_id, trigger_id, label, fire_at, at, kind, outcome, reason
          from jobforge.list_missed_firings(%s::integer)
        """,
        (limit,),
        _missed_runs,
    )


def list_migrations() -> Call[list[AppliedFile]]:
    return Call(
        "select name, checksum, applied_at from jobforge.list_migrations()", (), _applied_files
    )


def _gauges(rows: Rows) -> list[Gauge]:
    return list(map(Gauge._make, rows))


def _problems(rows: Rows) -> list[InstallationProblem]:
    return list(map(InstallationProblem._make, rows))


def _missed_runs(rows: Rows) -> list[MissedRun]:
    return list(map(MissedRun._make, rows))


def _applied_files(rows: Rows) -> list[AppliedFile]:
    return list(map(AppliedFile._make, rows))
