"""Queries about an installation: sessions, locks, tables, partitions, access.

Facts only: collect.py gathers them and checks.py evaluates them. Every query runs with the login's
own rights and returns a limited number of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from jobforge.calls.call import Call, query
from jobforge.calls.results import Rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VacuumBlocker:
    """A holder of an old snapshot, which keeps vacuum from removing dead rows.

    `kind` is session, prepared, slot or standby; `name` identifies the holder in the command that
    ends it.
    """

    kind: str
    name: str
    login: str | None
    program: str | None
    state: str | None
    age: int  # in transactions
    seconds: float | None


@dataclass(frozen=True, slots=True)
class LockWait:
    """A session that waits for a lock, and a session that holds it or is ahead in its queue.

    `holder` is 0 for a prepared transaction.
    """

    pid: int
    login: str | None
    program: str | None
    seconds: float
    holder: int
    holder_login: str | None
    holder_program: str | None
    holder_state: str | None


@dataclass(frozen=True, slots=True)
class TableStats:
    """Size, rows and vacuum of a table, from the statistics views."""

    name: str
    bytes: int
    live: int
    dead: int
    vacuumed_at: datetime | None
    has_autovacuum: bool


@dataclass(frozen=True, slots=True)
class PartitionCoverage:
    """Days ahead with a partition, and whether the default partition holds rows."""

    table: str
    days_ahead: int
    has_default_rows: bool


@dataclass(frozen=True, slots=True)
class ConnectionUsage:
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class ServerConditions:
    """Whether autovacuum is on, and whether this login can see other logins' sessions."""

    has_autovacuum: bool
    can_see_sessions: bool


def clock() -> Call[datetime]:
    return query("select clock_timestamp()", (), lambda rows: rows[0][0])


def server_conditions() -> Call[ServerConditions]:
    return query(
        """
        select current_setting('autovacuum')::boolean,
               pg_catalog.pg_has_role(session_user, 'pg_read_all_stats', 'usage')
        """,
        (),
        lambda rows: ServerConditions(*rows[0]),
    )


def vacuum_blockers() -> Call[list[VacuumBlocker]]:
    """Return the holders of old snapshots, oldest first.

    Only members of pg_read_all_stats see the sessions of other logins.
    """
    return query(
        """
        select h.kind, h.name, h.login, h.program, h.state, h.age, h.seconds
          from (select 'session' as kind, a.pid::text as name, a.usename::text as login,
                       a.application_name as program, a.state,
                       greatest(age(a.backend_xmin), age(a.backend_xid)) as age,
                       extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds
                  from pg_catalog.pg_stat_activity as a
                 where coalesce(a.backend_xmin, a.backend_xid) is not null
                   and a.pid <> pg_catalog.pg_backend_pid()
                union all
                select 'prepared', p.gid, p.owner::text, null, null, age(p.transaction),
                       extract(epoch from clock_timestamp() - p.prepared)::float8
                  from pg_catalog.pg_prepared_xacts as p
                union all
                select 'slot', s.slot_name::text, null, s.plugin::text,
                       case when s.active then 'active' else 'inactive' end,
                       greatest(age(s.xmin), age(s.catalog_xmin)), null
                  from pg_catalog.pg_replication_slots as s
                 where coalesce(s.xmin, s.catalog_xmin) is not null
                union all
                select 'standby', r.pid::text, r.usename::text, r.application_name, r.state,
                       age(r.backend_xmin), null
                  from pg_catalog.pg_stat_replication as r
                 where r.backend_xmin is not null) as h
         order by h.seconds desc nulls last, h.age desc
         limit 20
        """,
        (),
        _many(VacuumBlocker),
    )


def lock_waits() -> Call[list[LockWait]]:
    """Return waits for locks, longest first.

    Only members of pg_read_all_stats see what sessions of other logins do.
    """
    return query(
        """
        select w.pid, w.usename::text, w.application_name,
               extract(epoch from clock_timestamp() - l.since)::float8 as seconds,
               b.pid, h.usename::text, h.application_name, h.state
          from (select k.pid, min(k.waitstart) as since
                  from pg_catalog.pg_locks as k
                 where not k.granted
                 group by k.pid) as l
          join pg_catalog.pg_stat_activity as w on w.pid = l.pid
         cross join lateral
               (select distinct unnest(pg_catalog.pg_blocking_pids(l.pid)) as pid) as b
          left join pg_catalog.pg_stat_activity as h on h.pid = b.pid
         -- waitstart can be null for a moment after the wait began.
         where w.datname = pg_catalog.current_database() and l.since is not null
         order by seconds desc, w.pid, b.pid
         limit 20
        """,
        (),
        _many(LockWait),
    )


def tables() -> Call[list[TableStats]]:
    return query(
        """
        select c.relname::text, pg_catalog.pg_total_relation_size(c.oid), s.n_live_tup,
               s.n_dead_tup, greatest(s.last_autovacuum, s.last_vacuum),
               not coalesce('autovacuum_enabled=false' = any (c.reloptions), false)
          from pg_catalog.pg_class as c
          join pg_catalog.pg_stat_user_tables as s on s.relid = c.oid
         where c.relnamespace = to_regnamespace('jobforge') and c.relkind = 'r'
         order by 2 desc
         limit 50
        """,
        (),
        _many(TableStats),
    )


def partition_coverage() -> Call[list[PartitionCoverage]]:
    return query(
        """
        select p.relname::text,
               -- By day or by month: the upper bound of the last partition.
               (max(substring(pg_catalog.pg_get_expr(c.relpartbound, c.oid)
                              from 'TO [(]''(.+)''[)]')::timestamptz)
                   at time zone 'UTC')::date - 1
                   - (current_timestamp at time zone 'UTC')::date,
               -- After its rows are deleted, the partition keeps its pages until vacuum.
               coalesce(bool_or(c.relname ~ '_default$'
                   and pg_catalog.pg_relation_size(c.oid) > 0
                   and (pg_catalog.pg_stat_get_live_tuples(c.oid) > 0
                        or pg_catalog.pg_stat_get_tuples_deleted(c.oid) = 0)), false)
          from pg_catalog.pg_class as p
          join pg_catalog.pg_inherits as i on i.inhparent = p.oid
          join pg_catalog.pg_class as c on c.oid = i.inhrelid
         where p.relnamespace = to_regnamespace('jobforge') and p.relkind = 'p'
         group by p.relname
        having bool_or(c.relname ~ '_[0-9]{8}$')
         order by p.relname
        """,
        (),
        _many(PartitionCoverage),
    )


def access_faults() -> Call[list[str]]:
    """Return where owners, grants, policies and row security differ from the release."""
    return query("select fault from jobforge.access_faults()", (), _first_column)


def connections() -> Call[ConnectionUsage]:
    return query(
        """
        select count(*)::integer, current_setting('max_connections')::integer
          from pg_catalog.pg_stat_activity as a
         where a.backend_type = 'client backend'
        """,
        (),
        lambda rows: ConnectionUsage(*rows[0]),
    )


def _many(kind: Callable[..., T]) -> Callable[[Rows], list[T]]:
    return lambda rows: [kind(*row) for row in rows]


def _first_column(rows: Rows) -> list[str]:
    return [str(row[0]) for row in rows]
