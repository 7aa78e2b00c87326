"""What is wrong with an installation, and the command that fixes it.

Each check is a pure function from facts (collect.py) to findings. A check without problems yields
one OK finding, so that the report shows what was checked.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from jobforge.db.doctor.findings import Facts, Finding, Grade
from jobforge.db.doctor.problem_checks import check_problems, check_values
from jobforge.db.doctor.vacuum_checks import check_bloat, check_snapshots
from jobforge.types.tenants import BoundLogin

OLDEST_VERSION = 150000

_SKEW_S = 1.0
_MOST_USED_SHARE = 0.8
_DAYS_AHEAD = 2
_STALE_WORKERS_SHOWN = 5
_ACCESS_FAULTS_SHOWN = 5
_MIGRATE = "jobforge db migrate"
_REPAIR = "jobforge db migrate --repair"
_STORES_SHOWN = 6
_LOGINS_SHOWN = 6


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
            check_snapshots,
            check_bloat,
        ):
            findings += check(facts)
        findings += [*_partitions(facts), *_workers(facts), *_stores(facts)]
        findings += _credentials(facts)
        if facts.problems is not None:
            findings += check_problems(facts.problems)
        if facts.unreadable is not None:
            findings += check_values(facts.unreadable)
    return findings


def _server(facts: Facts) -> Iterator[Finding]:
    inspection, login = facts.inspection, facts.inspection.user
    version = f"{inspection.version // 10000}.{inspection.version % 10000}"
    if inspection.version < OLDEST_VERSION:
        yield Finding(
            "server", Grade.FAILED, f"Postgres {version} is too old", "Upgrade to Postgres 15 to 18"
        )
        return
    trip = f"{facts.round_trip_s * 1000:.1f} ms round trip"
    yield Finding("server", Grade.OK, f"Postgres {version}, as {login}, {trip}")
    if inspection.is_replica:
        yield Finding(
            "server",
            Grade.FAILED,
            "The database is a read-only replica",
            "Set JOBFORGE_DATABASE_URL to the primary's URL",
        )
    if inspection.bypasses_rls or inspection.is_superuser:
        yield Finding(
            "login",
            Grade.WARNING,
            f"{login} bypasses row-level security; don't use this login for applications or"
            " workers",
            "create role app login in role jobforge_client;  -- or jobforge_worker, jobforge_admin",
        )


def _schema(facts: Facts) -> Iterator[Finding]:
    if not facts.inspection.has_schema:
        message = "The schema is not installed"
        yield Finding("schema", Grade.FAILED, message, _MIGRATE)
    elif facts.is_newer:
        yield Finding(
            "schema",
            Grade.WARNING,
            "The schema is newer than this release",
            "Upgrade JobForge",
        )
    elif facts.schema_faults:
        yield Finding(
            "schema",
            Grade.FAILED,
            _format_count(facts.schema_faults, "file differs", "files differ")
            + " from this release",
            # If rights differ, the record of applied files may be unreadable: migrate would fail.
            _REPAIR if facts.access_faults else _MIGRATE,
        )
    elif facts.schema_faults is not None:
        yield Finding("schema", Grade.OK, "The schema is up to date")


def _access(facts: Facts) -> Iterator[Finding]:
    if facts.access_faults is None:
        return
    if not facts.access_faults:
        message = "Owners, grants, policies and row-level security match this release"
        yield Finding("access", Grade.OK, message)
    for fault in facts.access_faults[:_ACCESS_FAULTS_SHOWN]:
        yield Finding("access", Grade.FAILED, fault, _REPAIR)
    more = len(facts.access_faults) - _ACCESS_FAULTS_SHOWN
    if more > 0:
        message = f"{more} more rights differ from this release"
        yield Finding("access", Grade.FAILED, message, _REPAIR)


def _bound_logins(facts: Facts) -> Iterator[Finding]:
    bound = facts.bound_logins or ()
    for each in bound:
        if each.fault is not None:
            yield Finding(
                "logins",
                Grade.FAILED,
                f"Login '{each.login}' is bound to tenants but not confined: it {each.fault}",
                f"jobforge db unbind-login {each.login}  # or change its roles",
            )
    if bound and not any(each.fault for each in bound):
        names = ", ".join(f"{each.login} ({_tenants(each)})" for each in bound[:_LOGINS_SHOWN])
        more = f" and {len(bound) - _LOGINS_SHOWN} more" if len(bound) > _LOGINS_SHOWN else ""
        yield Finding("logins", Grade.OK, f"Logins bound to tenants: {names}{more}")


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
    cause = "a pooler is in use" if pooled else "no NOTIFY was received"
    yield Finding(
        "wakeups",
        Grade.WARNING,
        f"LISTEN does not work ({cause}): workers find jobs by polling, within 1.5 seconds",
        "JOBFORGE_LISTEN_URL=<a URL that bypasses the pooler>",
    )


def _clock(facts: Facts) -> Iterator[Finding]:
    if abs(facts.skew_s) <= _SKEW_S + facts.round_trip_s:
        yield Finding("clock", Grade.OK, "This machine's clock matches the database's clock")
    else:
        yield _clock_finding("This machine's clock", facts.skew_s)
    for worker in facts.workers or ():
        skew_s = worker.clock_skew_s or 0
        if worker.state == "live" and abs(skew_s) > _SKEW_S:
            yield _clock_finding(f"The clock of worker {worker.id} on {worker.host}", skew_s)


def _clock_finding(clock: str, skew_s: float) -> Finding:
    direction = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        "clock",
        Grade.WARNING,
        f"{clock} is {abs(skew_s):.0f} s {direction} the database's clock, which applies",
        "Run a time service (chrony, systemd-timesyncd) on both machines",
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
            f"{name} is off: a crash of the machine can lose or corrupt all jobs",
            f"alter system set {name} = on; select pg_reload_conf();",
        )
    if inspection.synchronous_commit == "off":
        yield Finding(
            "durability",
            Grade.FAILED,
            "synchronous_commit is off: a crash loses acknowledged jobs",
            "alter system set synchronous_commit = on; select pg_reload_conf();",
        )
    elif not risky:
        yield Finding("durability", Grade.OK, "Committed transactions survive a crash")


def _connections(facts: Facts) -> Iterator[Finding]:
    used, limit = facts.connections.used, facts.connections.limit
    if used > limit * _MOST_USED_SHARE:
        yield Finding(
            "connections",
            Grade.WARNING,
            f"{used} of {limit} connections are in use",
            "Use fewer connections per process, PgBouncer, or a larger max_connections",
        )
    else:
        yield Finding("connections", Grade.OK, f"{used} of {limit} connections are in use")


def _partitions(facts: Facts) -> Iterator[Finding]:
    short = [each for each in facts.partition_coverage if each.days_ahead < _DAYS_AHEAD]
    for each in short:
        yield Finding(
            "partitions",
            Grade.FAILED,
            f"{each.table} has partitions for {max(0, each.days_ahead)} days ahead",
            "select jobforge.ensure_partitions();  -- and keep a worker running to create them",
        )
    for each in facts.partition_coverage:
        if each.has_default_rows:
            yield Finding(
                "partitions",
                Grade.WARNING,
                f"{each.table} has rows in its default partition, which is never dropped",
                "select jobforge.ensure_partitions();  -- it moves them",
            )
    if not short:
        yield Finding("partitions", Grade.OK, "Partitions for the next days exist")


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
            f"Worker {worker.id} on {worker.host} has sent no heartbeat for"
            f" {_format_duration(silent)}",
            "Check whether its process is alive; other workers run its jobs",
        )
    if live:
        slots = sum(worker.slots for worker in live)
        message = _format_count(live, "live worker", "live workers") + f" with {slots} slots"
        yield Finding("workers", Grade.OK, message)
    else:
        yield Finding("workers", Grade.WARNING, "No worker is running", "jobforge worker app.py")


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
            "Processes have different artifact stores and cannot find each other's files: "
            + (f"{users}; and {more} more" if more > 0 else users),
            "Set artifacts (JOBFORGE_ARTIFACTS) to the same folder or bucket in all processes",
        )
    elif facts.stores[0].store_id is None:
        message = "No artifact store is configured: payloads and results must fit in a row"
        yield Finding("artifacts", Grade.OK, message)
    else:
        yield Finding("artifacts", Grade.OK, "All processes share one artifact store")


def _credentials(facts: Facts) -> Iterator[Finding]:
    """Check whether jobs can read credentials from this configuration's files."""
    for path in facts.readable_secret_files or ():
        yield Finding(
            "credentials",
            Grade.WARNING,
            f"Jobs of a worker that runs as this user can read {path}",
            "Move it to a folder that this user cannot write to, or use variables instead; "
            "see docs/credentials.md",
        )
    if facts.readable_secret_files is not None and not facts.readable_secret_files:
        message = "No file of this configuration exposes credentials to jobs"
        yield Finding("credentials", Grade.OK, message)


def _format_count(things: Sequence[object], singular: str, plural: str) -> str:
    return f"{len(things)} {singular if len(things) == 1 else plural}"


def _format_duration(duration: timedelta) -> str:
    minutes = duration.total_seconds() / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
