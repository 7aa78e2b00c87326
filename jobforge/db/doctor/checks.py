"""What is wrong with an installation, and the command that fixes it.

Each check is a pure function from facts (collect.py) to findings. A check without problems yields
one OK finding, so that the report shows what was checked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from jobforge.types.diagnostics import StoreUser, Trouble
from jobforge.types.tenants import BoundLogin
from jobforge.types.workers import WorkerInfo

OLDEST_VERSION = 150000

_SKEW_S = 1.0
_HELD_S = 300.0  # a snapshot held for longer slows down claims
_OLD_XIDS = 1_000_000
_MANY_DEAD = 100_000
_DEAD_SHARE = 5.0  # dead rows as a multiple of live rows
_MOST_USED_SHARE = 0.8
_DAYS_AHEAD = 2
_STALE_WORKERS_SHOWN = 5
_ACCESS_FAULTS_SHOWN = 5
_MIGRATE = "jobforge db migrate"
_REPAIR = "jobforge db migrate --repair"
_STORES_SHOWN = 6
_LOGINS_SHOWN = 6


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
    troubles: Sequence[Trouble] | None = None
    unreadable: Sequence[Trouble] | None = None
    stores: Sequence[StoreUser] | None = None
    readable_secret_files: Sequence[Path] | None = None  # files with credentials that jobs can read
    bound_logins: Sequence[BoundLogin] | None = None


_UPDATE = "update {0} set {2} where {1};  -- as a superuser; then set what is still needed again"
_DELETE = "delete from {} where {};  -- as a superuser; then restart a worker: it declares it again"
_REMOVED = '{"$unreadable": "removed"}'
# Columns that must stay valid for the engine, which reads their fields one by one.
_SHORTENED = {
    ("connector_configs", "secrets"): "{}",
    ("definitions", "overrides"): "{}",
    ("definitions", "parameters"): "{}",
    ("definitions", "registered"): "{}",
    ("operations", "progress"): '{"phase": "jobs"}',  # an erasure restarts
    ("workflows", "callbacks"): "{}",
    ("workflows", "counts"): "{}",
}


def diagnose(facts: Facts) -> list[Finding]:
    """Run all checks, in the order of their dependencies."""
    findings = [*_server(facts), *_schema(facts)]
    if facts.inspection.has_schema:
        for check in (
            _access,
            _bound_logins,
            _wakeups,
            _clock,
            _durability,
            _connections,
            _snapshots,
            _bloat,
        ):
            findings += check(facts)
        findings += [*_partitions(facts), *_workers(facts), *_stores(facts)]
        findings += _credentials(facts)
        if facts.troubles is not None:
            findings += _troubles(facts.troubles)
        if facts.unreadable is not None:
            findings += _values(facts.unreadable)
    return findings


def advise_vacuum(facts: Facts) -> list[Finding]:
    """Return what keeps dead rows in the tables; empty if vacuum can keep up."""
    return [each for each in (*_snapshots(facts), *_bloat(facts)) if each.grade is not Grade.OK]


def _server(facts: Facts) -> Iterator[Finding]:
    inspection, login = facts.inspection, facts.inspection.user
    version = f"{inspection.version // 10000}.{inspection.version % 10000}"
    if inspection.version < OLDEST_VERSION:
        yield Finding(
            "server", Grade.FAILED, f"Postgres {version} is too old", "upgrade to Postgres 15 to 18"
        )
        return
    trip = f"{facts.round_trip_s * 1000:.1f} ms a round trip"
    yield Finding("server", Grade.OK, f"Postgres {version}, as {login}, {trip}")
    if inspection.is_replica:
        yield Finding(
            "server",
            Grade.FAILED,
            "this is a replica: nothing can be written",
            "give the URL of the primary: JOBFORGE_DATABASE_URL",
        )
    if inspection.bypasses_rls or inspection.is_superuser:
        yield Finding(
            "login",
            Grade.WARNING,
            f"{login} passes by row-level security: no place for applications and workers",
            "create role app login in role jobforge_client;  -- or jobforge_worker, jobforge_admin",
        )


def _schema(facts: Facts) -> Iterator[Finding]:
    if not facts.inspection.has_schema:
        message = "the schema is not installed"
        yield Finding("schema", Grade.FAILED, message, _MIGRATE)
    elif facts.is_newer:
        yield Finding(
            "schema",
            Grade.WARNING,
            "the schema is newer than this release",
            "upgrade jobforge here",
        )
    elif facts.schema_faults:
        yield Finding(
            "schema",
            Grade.FAILED,
            _format_count(facts.schema_faults, "file is", "files are")
            + " not as this release has it",
            # If rights differ, the record of applied files may be unreadable: migrate would fail.
            _REPAIR if facts.access_faults else _MIGRATE,
        )
    elif facts.schema_faults is not None:
        yield Finding("schema", Grade.OK, "the schema is up to date")


def _access(facts: Facts) -> Iterator[Finding]:
    if facts.access_faults is None:
        return
    if not facts.access_faults:
        message = "owners, grants, policies and row security are those of the release"
        yield Finding("access", Grade.OK, message)
    for fault in facts.access_faults[:_ACCESS_FAULTS_SHOWN]:
        yield Finding("access", Grade.FAILED, fault, _REPAIR)
    more = len(facts.access_faults) - _ACCESS_FAULTS_SHOWN
    if more > 0:
        message = f"{more} more rights differ from what the release says"
        yield Finding("access", Grade.FAILED, message, _REPAIR)


def _bound_logins(facts: Facts) -> Iterator[Finding]:
    bound = facts.bound_logins or ()
    for each in bound:
        if each.fault is not None:
            yield Finding(
                "logins",
                Grade.FAILED,
                f"the login {each.login} is bound to tenants but not confined: it {each.fault}",
                f"jobforge db unbind-login {each.login}  # or change its roles",
            )
    if bound and not any(each.fault for each in bound):
        names = ", ".join(f"{each.login} ({_tenants(each)})" for each in bound[:_LOGINS_SHOWN])
        more = f" and {len(bound) - _LOGINS_SHOWN} more" if len(bound) > _LOGINS_SHOWN else ""
        yield Finding("logins", Grade.OK, f"logins bound to tenants: {names}{more}")


def _tenants(login: BoundLogin) -> str:
    match login.slugs:
        case []:
            return "no tenant"
        case [only]:
            return only
        case several:
            return f"{len(several)} tenants"


def _wakeups(facts: Facts) -> Iterator[Finding]:
    if facts.is_notify_received is None:
        return
    if facts.is_notify_received:
        yield Finding("wakeups", Grade.OK, "LISTEN and NOTIFY work")
        return
    pooled = facts.inspection.is_behind_pooler
    cause = "a pooler is in between" if pooled else "a NOTIFY did not come back"
    yield Finding(
        "wakeups",
        Grade.WARNING,
        f"LISTEN does not work ({cause}): jobs are found by polling, up to a second later",
        "JOBFORGE_LISTEN_URL=<a URL past the pooler>",
    )


def _clock(facts: Facts) -> Iterator[Finding]:
    if abs(facts.skew_s) <= _SKEW_S + facts.round_trip_s:
        yield Finding("clock", Grade.OK, "this machine's clock agrees with the database's")
    else:
        yield _clock_finding("this machine's clock", facts.skew_s)
    for worker in facts.workers or ():
        skew_s = worker.clock_skew_s or 0
        if worker.state == "live" and abs(skew_s) > _SKEW_S:
            yield _clock_finding(f"the clock of worker {worker.id} on {worker.host}", skew_s)


def _clock_finding(clock: str, skew_s: float) -> Finding:
    direction = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        "clock",
        Grade.WARNING,
        f"{clock} is {abs(skew_s):.0f} s {direction} the database's, which decides",
        "run a time service (chrony, systemd-timesyncd) on both",
    )


def _durability(facts: Facts) -> Iterator[Finding]:
    inspection = facts.inspection
    risky = [
        name
        for name, is_on in (
            ("fsync", inspection.fsync),
            ("full_page_writes", inspection.full_page_writes),
        )
        if not is_on
    ]
    for name in risky:
        yield Finding(
            "durability",
            Grade.FAILED,
            f"{name} is off: a crash of the machine can lose or corrupt every job",
            f"alter system set {name} = on; select pg_reload_conf();",
        )
    if inspection.synchronous_commit == "off":
        yield Finding(
            "durability",
            Grade.FAILED,
            "synchronous_commit is off: a crash loses jobs that were acknowledged",
            "alter system set synchronous_commit = on; select pg_reload_conf();",
        )
    elif not risky:
        yield Finding("durability", Grade.OK, "what is committed survives a crash")


def _connections(facts: Facts) -> Iterator[Finding]:
    used, most = facts.connections.used, facts.connections.most
    if used > most * _MOST_USED_SHARE:
        yield Finding(
            "connections",
            Grade.WARNING,
            f"{used} of {most} connections are in use",
            "fewer connections for each process, PgBouncer, or a larger max_connections",
        )
    else:
        yield Finding("connections", Grade.OK, f"{used} of {most} connections are in use")


def _snapshots(facts: Facts) -> Iterator[Finding]:
    if not facts.server_conditions.can_see_sessions:
        yield Finding(
            "snapshots",
            Grade.WARNING,
            "what other logins hold cannot be seen",
            f'grant pg_read_all_stats to "{facts.inspection.user}";',
        )
    held = [each for each in facts.vacuum_blockers if _blocks_vacuum(each)]
    for each in held:
        yield Finding("snapshots", Grade.FAILED, _describe_blocker(each), suggest_release(each))
    if not held:
        yield Finding("snapshots", Grade.OK, "nobody keeps dead rows from being removed")


def _blocks_vacuum(horizon: VacuumBlocker) -> bool:
    return (horizon.seconds or 0) > _HELD_S or horizon.age > _OLD_XIDS


def _describe_blocker(horizon: VacuumBlocker) -> str:
    holder = {
        "session": f"session {horizon.name}",
        "prepared": f"the prepared transaction {horizon.name}",
        "slot": f"the replication slot {horizon.name}",
        "standby": f"the standby {horizon.program}",
    }[horizon.kind]
    details = ", ".join(filter(None, (horizon.login, horizon.program, horizon.state)))
    since = f" for {horizon.seconds / 60:.0f} minutes" if horizon.seconds else ""
    return f"{holder} ({details}) holds a snapshot{since}: dead rows pile up, and claims slow down"


def suggest_release(horizon: VacuumBlocker) -> str:
    """Return the statement or setting that releases the snapshot."""
    match horizon.kind:
        case "prepared":
            return f"rollback prepared '{horizon.name}';  -- or commit it"
        case "slot":
            return f"select pg_drop_replication_slot('{horizon.name}');  -- if nobody needs it"
        case "standby":
            return "hot_standby_feedback = off there, or end its long query"
        case _:
            return f"select pg_terminate_backend({horizon.name});"


def _bloat(facts: Facts) -> Iterator[Finding]:
    if not facts.server_conditions.has_autovacuum:
        yield Finding(
            "vacuum",
            Grade.FAILED,
            "autovacuum is off: dead rows are never removed",
            "alter system set autovacuum = on; select pg_reload_conf();",
        )
    bloated = [t for t in facts.tables if t.dead > _MANY_DEAD and t.dead > t.live * _DEAD_SHARE]
    for table in [t for t in facts.tables if not t.has_autovacuum]:
        yield Finding(
            "vacuum",
            Grade.FAILED,
            f"autovacuum is off for {table.name}",
            f"alter table jobforge.{table.name} reset (autovacuum_enabled);",
        )
    for table in bloated:
        yield Finding(
            "vacuum",
            Grade.WARNING,
            f"{table.name} has {table.dead:,} dead rows and {table.live:,} live ones",
            f"vacuum jobforge.{table.name};  -- after the session that holds a snapshot has ended",
        )
    if facts.server_conditions.has_autovacuum and not bloated:
        yield Finding("vacuum", Grade.OK, "tables are vacuumed")


def _partitions(facts: Facts) -> Iterator[Finding]:
    short = [each for each in facts.partition_coverage if each.days_ahead < _DAYS_AHEAD]
    for each in short:
        yield Finding(
            "partitions",
            Grade.FAILED,
            f"{each.table} has partitions for {max(0, each.days_ahead)} days ahead",
            "select jobforge.ensure_partitions();  -- and keep a worker running, which does it",
        )
    for each in facts.partition_coverage:
        if each.has_strays:
            yield Finding(
                "partitions",
                Grade.WARNING,
                f"rows of {each.table} are in its default partition, which is never dropped",
                "select jobforge.ensure_partitions();  -- it moves them",
            )
    if not short:
        yield Finding("partitions", Grade.OK, "partitions of the history are ahead")


def _workers(facts: Facts) -> Iterator[Finding]:
    if facts.workers is None:
        return
    live = [worker for worker in facts.workers if worker.state == "live"]
    stale = [worker for worker in facts.workers if worker.state == "stale"]
    for worker in stale[:_STALE_WORKERS_SHOWN]:
        silent = datetime.now(UTC) - worker.heartbeat_at
        yield Finding(
            "workers",
            Grade.WARNING,
            f"worker {worker.id} on {worker.host} has said nothing for {_format_duration(silent)}",
            "look whether its process is alive; its jobs were handed to others",
        )
    if live:
        slots = sum(worker.slots for worker in live)
        message = _format_count(live, "worker", "workers") + f" live, {slots} slots"
        yield Finding("workers", Grade.OK, message)
    else:
        yield Finding("workers", Grade.WARNING, "no worker is live", "jobforge worker app.py")


def _stores(facts: Facts) -> Iterator[Finding]:
    """Check whether apps, servers and workers share one artifact store."""
    if not facts.stores:
        return
    if len({user.store_id for user in facts.stores}) > 1:
        users = "; ".join(user.describe() for user in facts.stores[:_STORES_SHOWN])
        more = len(facts.stores) - _STORES_SHOWN
        yield Finding(
            "artifacts",
            Grade.WARNING,
            "processes have different artifact stores and do not find each other's files: "
            + (f"{users}; and {more} more" if more > 0 else users),
            "set artifacts (JOBFORGE_ARTIFACTS) to one folder or bucket for all of them",
        )
    elif facts.stores[0].store_id is None:
        message = "no artifact store is configured: payloads and results must fit in a row"
        yield Finding("artifacts", Grade.OK, message)
    else:
        yield Finding("artifacts", Grade.OK, "all processes share one artifact store")


def _credentials(facts: Facts) -> Iterator[Finding]:
    """Check whether jobs can read credentials from this configuration's files."""
    for path in facts.readable_secret_files or ():
        yield Finding(
            "credentials",
            Grade.WARNING,
            f"jobs of a worker that runs as this user can read {path}",
            "move it to a folder that this user cannot write to, or use variables instead; "
            "see docs/isolation.md",
        )
    if facts.readable_secret_files is not None and not facts.readable_secret_files:
        message = "no file of this configuration gives jobs credentials"
        yield Finding("credentials", Grade.OK, message)


_ALL_CLEAR = {
    "definitions": "every job that waits has a worker that serves it",
    "schedules": "schedules fire on time",
    "webhooks": "no endpoint was disabled",
    "events": "events are dispatched",
    "operations": "bulk operations go on",
    "blocked": "every blocked job waits for a job that has not ended",
}


def _troubles(troubles: Sequence[Trouble]) -> Iterator[Finding]:
    findings = [_finding_from_trouble(each) for each in troubles]
    for check, message in _ALL_CLEAR.items():
        matching = [each for each in findings if each.check == check]
        yield from matching or [Finding(check, Grade.OK, message)]


def _finding_from_trouble(trouble: Trouble) -> Finding:
    """Return the finding for one row of find_troubles."""
    since = f"{trouble.since.astimezone(UTC):%Y-%m-%d %H:%M}Z"
    subject, detail, tenant = trouble.subject, trouble.detail, trouble.tenant_id
    schedulers = "jobforge scheduler  -- or a worker without --no-scheduler"
    match trouble.kind:
        case "overdue":
            message = f"the schedule {subject} of tenant {tenant} is due since {since}"
            return Finding("schedules", Grade.FAILED, message, schedulers)
        case "faulty":
            message = f"the trigger {subject} of tenant {tenant} was disabled: {detail}"
            listed = f"jobforge triggers list --disabled --tenant {tenant}"
            fix = f"{listed}; then triggers edit and triggers enable"
            return Finding("schedules", Grade.WARNING, message, fix)
        case "webhook":
            message = (
                f"the endpoint {subject} of tenant {tenant} is disabled since {since}: {detail}"
            )
            fix = f"jobforge webhooks edit {subject} --enable --tenant {tenant}"
            return Finding("webhooks", Grade.WARNING, message, fix)
        case "event":
            number = "1,000 or more" if detail == "1000" else detail
            message = f"events wait, {number} of them, the oldest since {since}"
            return Finding("events", Grade.FAILED, message, schedulers)
        case "operation":
            message = f"the operation {subject} ({detail}) of tenant {tenant} stands since {since}"
            fix = "keep a server running, or a worker with a database: they carry it on"
            return Finding("operations", Grade.FAILED, message, fix)
        case "blocked":
            message = (
                f"the job {subject} ({detail}) of tenant {tenant} is blocked, "
                "and all its parents have ended"
            )
            finding = Finding("blocked", Grade.FAILED, message, schedulers)
        case _:
            message = (
                f"jobs of {subject} wait in queue {detail} since {since}, "
                "and no live worker serves them"
            )
            fix = f"start a worker that has {subject}, with --queues {detail}"
            finding = Finding("definitions", Grade.FAILED, message, fix)
    return finding


def _values(unreadable: Sequence[Trouble]) -> Iterator[Finding]:
    """Return findings for JSON values from find_unreadable."""
    for each in unreadable:
        subject, option = each.subject, f"--tenant {each.tenant_id}"
        if each.kind == "removed":
            yield Finding(
                "values",
                Grade.WARNING,
                f"the payload of the job {subject} of tenant {each.tenant_id} was too long as JSON "
                "text and was removed; the job is dead",
                f"enqueue the job again, then jobforge jobs cancel {subject} {option}",
            )
        elif each.kind == "job":
            yield Finding(
                "values",
                Grade.FAILED,
                f"{each.detail} of the job {subject} of tenant {each.tenant_id} is too long as "
                "JSON text: it cannot be read, and pg_dump fails on a row of more than 1 GB",
                f"jobforge jobs cancel {subject} {option}, then jobforge jobs erase {subject} "
                f"{option}",
            )
        else:
            yield Finding(
                "values",
                Grade.FAILED,
                f"{each.detail} of the row of jobforge.{each.kind} with {subject} is too long as "
                "JSON text: it cannot be read, and pg_dump fails on a row of more than 1 GB",
                _repair(each),
            )
    if not unreadable:
        yield Finding(
            "values",
            Grade.OK,
            "JSON of all tables can be read as text (up to 50,000 rows of each table were checked)",
        )


def _repair(trouble: Trouble) -> str:
    """Return the statement that shortens the JSON values in one row of find_unreadable."""
    row = f"jobforge.{trouble.kind}", trouble.subject  # find_unreadable has quoted the subject
    if trouble.kind == "declared_schedules":
        return _DELETE.format(*row)
    values = ", ".join(
        f"{column} = '{_SHORTENED.get((trouble.kind, column), _REMOVED)}'"
        for column in trouble.detail.split(", ")
    )
    return _UPDATE.format(*row, values)


def _format_count(things: Sequence[object], singular: str, plural: str) -> str:
    return f"{len(things)} {singular if len(things) == 1 else plural}"


def _format_duration(duration: timedelta) -> str:
    minutes = duration.total_seconds() / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
