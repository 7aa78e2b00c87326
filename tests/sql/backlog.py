"""A long queue, created in one statement, with statistics that can be wrong about it.

Statistics are stale in any queue: a table may be full when it is analyzed and empty a minute later.
"""

from collections.abc import Callable
from uuid import UUID

from cluster import Connection
from sql.engine import TENANT_A

Change = Callable[[Connection], None]

ROWS = 30_000

# One tenant has two thirds of the jobs; a thousand other tenants share the rest.
LARGE = TENANT_A
WORKER = UUID("cccccccc-0000-4000-8000-000000000003")

MIXED = """(array['queued', 'queued', 'queued', 'queued', 'queued', 'queued', 'queued', 'queued',
    'scheduled', 'scheduled', 'scheduled', 'running', 'running', 'dead'])[mod(i, 14) + 1]"""


# Two thirds of the running jobs have sent a heartbeat; some of these leases have expired.
_BEAT = """
    insert into jobforge.heartbeats (tenant_id, job_id, worker_id, lease, beat_at, expires_at)
    select tenant_id, id, worker_id, lease, started_at, lease_expires_at
      from jobforge.jobs where state = 'running' and mod(lease, 3) > 0
    on conflict do nothing
"""


def fill(conn: Connection, rows: int, state: str = MIXED) -> None:
    """Insert jobs numbered by i, in states from the expression, and a fifth as many finished
    jobs."""
    conn.execute(
        f"""
        with numbered as (
            select i, {state} as state, clock_timestamp() as now,
                   case when mod(i, 3) > 0 then %(large)s
                        else md5(mod(i, 1000)::text)::uuid end as tenant_id
              from generate_series(1, %(rows)s) as i
        )
        insert into jobforge.jobs (
               tenant_id, id, lease, created_at, run_at, queued_at, started_at,
               lease_expires_at, finished_at, worker_id, version, attempt, max_attempts, allowance,
               priority, state, definition, queue, fingerprint, error, payload)
        select n.tenant_id, jobforge_private.nth_id(f.id, n.i), n.i, n.now,
               n.now + case when n.state = 'scheduled' and n.i > 50 then interval '1 day'
                            else interval '-1 hour' end,
               case when n.state <> 'scheduled' then n.now end,
               case when n.state in ('running', 'dead') then n.now end,
               case when n.state = 'running'
                    then n.now + case when n.i > 50 then interval '1 hour'
                                      else interval '-1 minute' end end,
               case when n.state = 'dead' then n.now end,
               case when n.state = 'running' then %(worker)s end,
               1, case when n.state in ('running', 'dead') then 1 else 0 end, 5, 5,
               mod(n.i, 3), n.state, 'planned', 'default',
               case when n.state = 'dead' then md5(mod(n.i, 5)::text) end,
               case when n.state = 'dead' then '{{"type": "E"}}'::jsonb end, '{{"n": 1}}'
          from numbered as n cross join (select jobforge_private.uuid7() as id) as f
        """.encode(),
        {"large": LARGE, "rows": rows, "worker": WORKER},
    )
    conn.execute(_BEAT)
    fill_audit_log(conn, rows // 3)
    conn.execute(
        """
        with moved as (
            select * from jobforge.jobs where state in ('queued', 'running') limit %s
        ), finished as (
            insert into jobforge.finished_jobs (
                   tenant_id, id, lease, created_at, run_at, finished_at, version, attempt,
                   max_attempts, allowance, priority, flags, state, definition, queue, source,
                   payload)
            select m.tenant_id, gen_random_uuid(), m.lease, m.created_at, m.run_at,
                   m.created_at + mod(m.lease, 8) * interval '1 day', 1, 1, 5, 5, 0, 0,
                   'succeeded', m.definition, m.queue, m.source, m.payload
              from moved as m
            returning *
        )
        insert into jobforge.attempts (
               tenant_id, job_id, worker_id, lease, started_at, ended_at, version, attempt,
               outcome, state, definition, queue)
        select f.tenant_id, f.id, gen_random_uuid(), f.lease, f.created_at, f.finished_at, 1, 1,
               'succeeded', f.state, f.definition, f.queue
          from finished as f
        """,
        [rows // 5],
    )


def fill_audit_log(conn: Connection, rows: int) -> None:
    """Insert audit entries of the last year: a third of them by operators, without a tenant."""
    conn.execute(
        """
        do $$
        declare
            v_month date;
            v_name text;
        begin
            for v_month in
                select d::date
                  from generate_series(date_trunc('month', now() at time zone 'UTC')
                                       - interval '1 year', now(), interval '1 month') as d
            loop
                v_name := 'audit_log_' || to_char(v_month, 'YYYYMMDD');
                continue when to_regclass('jobforge.' || v_name) is not null;
                perform jobforge_private.build_partition('audit_log', v_month);
                execute format('alter table jobforge.audit_log attach partition jobforge.%I '
                               'for values from (%L) to (%L)', v_name, v_month || ' 00:00+00',
                               (v_month + interval '1 month')::date || ' 00:00+00');
            end loop;
        end $$
        """
    )
    conn.execute(
        """
        insert into jobforge.audit_log (id, tenant_id, at, actor, action, target)
        select (lpad(to_hex((extract(epoch from a.at) * 1000)::bigint), 12, '0') || '7000'
                || substr(md5(random()::text), 1, 16))::uuid,
               case mod(a.i, 3) when 0 then null when 1 then %(large)s
                                else md5(mod(a.i, 1000)::text)::uuid end,
               a.at, 'ada', 'job.cancel', a.i::text
          from (select i, now() - interval '1 year' * random() as at
                  from generate_series(1, %(rows)s) as i) as a
        """,
        {"large": LARGE, "rows": rows},
    )


def analyze(conn: Connection) -> None:
    conn.execute(
        "analyze jobforge.jobs, jobforge.finished_jobs, jobforge.attempts, jobforge.heartbeats,"
        " jobforge.audit_log"
    )


def _fill(conn: Connection) -> None:
    fill(conn, ROWS)


def _analyze_empty(conn: Connection) -> None:
    analyze(conn)
    fill(conn, ROWS)


def _analyze_small(conn: Connection) -> None:
    fill(conn, 10)
    analyze(conn)
    fill(conn, ROWS)


def _empty(conn: Connection) -> None:
    conn.execute("delete from jobforge.jobs where lease > 100")
    conn.execute("delete from jobforge.finished_jobs where lease > 100")
    conn.execute("delete from jobforge.heartbeats where lease > 100")


def _all(state: str) -> Change:
    def make(conn: Connection) -> None:
        fill(conn, ROWS, f"'{state}'")
        analyze(conn)
        fill(conn, ROWS // 10)

    return make


def _queue_the_running(conn: Connection) -> None:
    conn.execute(
        """
        update jobforge.jobs set state = 'queued', queued_at = created_at, worker_id = null,
               lease_expires_at = null
         where state = 'running' and lease > 100
        """
    )


def _run_the_queued(conn: Connection) -> None:
    conn.execute(
        """
        update jobforge.jobs set state = 'running', worker_id = %s, attempt = 1,
               started_at = created_at, lease_expires_at = created_at + interval '1 hour'
         where state = 'queued' and lease > 100
        """,
        [WORKER],
    )
    conn.execute(_BEAT)


# Backlogs by what the statistics say about them. Each line is one database, and each change starts
# from the previous one, because filling takes longer than the checks that follow it.
HISTORIES: list[dict[str, Change]] = [
    {"never analysed": _fill, "fresh": analyze, "analysed full, now empty": _empty},
    {"analysed empty": _analyze_empty},
    {"analysed with ten rows": _analyze_small},
    {"all were queued": _all("queued"), "all were queued, now running": _run_the_queued},
    {"all were running": _all("running"), "all were running, now queued": _queue_the_running},
    {"all were scheduled": _all("scheduled")},
    {"all were dead": _all("dead")},
]
