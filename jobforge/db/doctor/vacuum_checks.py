"""Check that vacuum can remove dead rows: open snapshots, autovacuum, bloated tables."""

from collections.abc import Iterator

from jobforge.db.doctor.findings import Facts, Finding, Grade
from jobforge.db.doctor.probes import VacuumBlocker

_HELD_S = 300.0  # a snapshot held for longer slows down claims
_OLD_XIDS = 1_000_000
_MANY_DEAD = 100_000
_DEAD_SHARE = 5.0  # dead rows as a multiple of live rows


def advise_vacuum(facts: Facts) -> list[Finding]:
    """Return what keeps dead rows in the tables; empty if vacuum can keep up."""
    return [
        each
        for each in (*check_snapshots(facts), *check_bloat(facts))
        if each.grade is not Grade.OK
    ]


def check_snapshots(facts: Facts) -> Iterator[Finding]:
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


def check_bloat(facts: Facts) -> Iterator[Finding]:
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
