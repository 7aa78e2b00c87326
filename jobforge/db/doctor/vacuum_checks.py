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
            "Snapshots of other logins are not visible",
            f'grant pg_read_all_stats to "{facts.inspection.user}";',
        )
    held = [each for each in facts.vacuum_blockers if _blocks_vacuum(each)]
    for each in held:
        yield Finding("snapshots", Grade.FAILED, _describe_blocker(each), suggest_release(each))
    if not held:
        yield Finding("snapshots", Grade.OK, "No snapshot prevents the removal of dead rows")


def _blocks_vacuum(horizon: VacuumBlocker) -> bool:
    return (horizon.seconds or 0) > _HELD_S or horizon.age > _OLD_XIDS


def _describe_blocker(horizon: VacuumBlocker) -> str:
    holder = {
        "session": f"Session {horizon.name}",
        "prepared": f"Prepared transaction {horizon.name}",
        "slot": f"Replication slot {horizon.name}",
        "standby": f"Standby {horizon.program}",
    }[horizon.kind]
    details = ", ".join(filter(None, (horizon.login, horizon.program, horizon.state)))
    since = f" for {horizon.seconds / 60:.0f} minutes" if horizon.seconds else ""
    effect = "dead rows accumulate and slow down claims"
    return f"{holder} ({details}) holds a snapshot{since}: {effect}"


def suggest_release(horizon: VacuumBlocker) -> str:
    """Return the statement or setting that releases the snapshot."""
    match horizon.kind:
        case "prepared":
            return f"rollback prepared '{horizon.name}';  -- or commit it"
        case "slot":
            return f"select pg_drop_replication_slot('{horizon.name}');  -- if it is not needed"
        case "standby":
            return "Set hot_standby_feedback = off on the standby, or end its long query"
        case _:
            return f"select pg_terminate_backend({horizon.name});"


def check_bloat(facts: Facts) -> Iterator[Finding]:
    if not facts.server_conditions.has_autovacuum:
        yield Finding(
            "vacuum",
            Grade.FAILED,
            "Autovacuum is off: dead rows are never removed",
            "alter system set autovacuum = on; select pg_reload_conf();",
        )
    bloated = [t for t in facts.tables if t.dead > _MANY_DEAD and t.dead > t.live * _DEAD_SHARE]
    for table in [t for t in facts.tables if not t.has_autovacuum]:
        yield Finding(
            "vacuum",
            Grade.FAILED,
            f"Autovacuum is off for {table.name}",
            f"alter table jobforge.{table.name} reset (autovacuum_enabled);",
        )
    for table in bloated:
        yield Finding(
            "vacuum",
            Grade.WARNING,
            f"{table.name} has {table.dead:,} dead rows and {table.live:,} live rows",
            f"vacuum jobforge.{table.name};  -- after the session with the snapshot has finished",
        )
    if facts.server_conditions.has_autovacuum and not bloated:
        yield Finding("vacuum", Grade.OK, "Tables are vacuumed")
