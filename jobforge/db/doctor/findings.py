"""The facts that the doctor's checks read (collect.py), and the findings that they return."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from jobforge.db.doctor.probes import (
    ConnectionUsage,
    PartitionCoverage,
    ServerConditions,
    TableStats,
    VacuumBlocker,
)
from jobforge.db.doctor.server_facts import Inspection
from jobforge.types.diagnostics import InstallationProblem, StoreUser
from jobforge.types.tenants import BoundLogin
from jobforge.types.workers import WorkerInfo


class Grade(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check; `fix` is a command to run or a setting to change."""

    check: str
    grade: Grade
    message: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All collected facts. A fact that could not be read is None, and its check is skipped."""

    inspection: Inspection
    round_trip_s: float
    skew_s: float
    schema_faults: Sequence[str] | None
    is_notify_received: bool | None  # whether a LISTEN received its NOTIFY
    is_newer: bool = False  # the schema is of a later release than this one
    access_faults: Sequence[str] | None = ()
    server_conditions: ServerConditions = field(
        default_factory=lambda: ServerConditions(True, True)  # noqa: FBT003 - both conditions hold by default
    )
    connections: ConnectionUsage = field(default_factory=lambda: ConnectionUsage(0, 1))
    vacuum_blockers: Sequence[VacuumBlocker] = ()
    tables: Sequence[TableStats] = ()
    partition_coverage: Sequence[PartitionCoverage] = ()
    workers: Sequence[WorkerInfo] | None = None
    problems: Sequence[InstallationProblem] | None = None
    unreadable: Sequence[InstallationProblem] | None = None
    stores: Sequence[StoreUser] | None = None
    readable_secret_files: Sequence[Path] | None = None  # files with credentials that jobs can read
    bound_logins: Sequence[BoundLogin] | None = None
