"""A second record of all state changes, written by a trigger of the tests, and the rules for it.

The engine does not use the ledger, so the engine's tables are compared with independent data. `n`
comes from a sequence while the job's row is locked: for one job it is the order of events. Between
jobs, events that were visible to a transaction before it acted have lower numbers.
"""

from collections.abc import Mapping

from cluster import Connection
from sql.engine import Row

_INSTALL = """
create table public.ledger (
    n bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    tenant_id uuid not null,
    job_id uuid not null,
    from_state text,
    to_state text not null,
    lease bigint not null,
    worker_id uuid,
    attempt integer not null,
    max_attempts integer not null,
    queue text not null,
    definition text not null,
    limit_key text
);
create index on public.ledger (tenant_id, job_id, n);

create function public.write_ledger() returns trigger
language plpgsql security definer
as $$
declare
    v_job jobforge.jobs := case when tg_op = 'DELETE' then old else new end;
begin
    insert into public.ledger (
           tenant_id, job_id, from_state, to_state, lease, worker_id, attempt, max_attempts, queue,
           definition, limit_key)
    values (v_job.tenant_id, v_job.id, case when tg_op <> 'INSERT' then old.state end,
            case when tg_op <> 'DELETE' then new.state else coalesce(
                (select f.state from jobforge.finished_jobs as f
                  where f.tenant_id = old.tenant_id and f.id = old.id), 'erased') end,
            v_job.lease,
            coalesce(v_job.worker_id, case when tg_op = 'UPDATE' then old.worker_id end),
            v_job.attempt, v_job.max_attempts, v_job.queue, v_job.definition, v_job.limit_key);
    return null;
end $$;

create trigger ledger_of_comings_and_goings after insert or delete on jobforge.jobs
    for each row execute function public.write_ledger();
create trigger ledger_of_changes after update on jobforge.jobs
    for each row when (old.state <> new.state or old.lease <> new.lease)
    execute function public.write_ledger();
"""

# Each query returns the rows that break its rule. The rules apply to every run of the engine.
_RULES: Mapping[str, str] = {
    "terminal is final": """
        select e.* from public.ledger as e
          join public.ledger as l on l.tenant_id = e.tenant_id and l.job_id = e.job_id and l.n < e.n
         where l.to_state in ('succeeded', 'canceled', 'erased')
    """,
    "a dead job can only be revived, canceled or erased": """
        select * from public.ledger
         where from_state = 'dead' and to_state not in ('queued', 'scheduled', 'canceled', 'erased')
    """,
    "a job finishes once, and is in one table": """
        select tenant_id, id, count(*) from jobforge.all_jobs group by 1, 2 having count(*) > 1
    """,
    "a lease ends as it was granted": """
        select e.* from public.ledger as e
         cross join lateral (
               select s.lease, s.worker_id from public.ledger as s
                where s.tenant_id = e.tenant_id and s.job_id = e.job_id and s.n < e.n
                order by s.n desc limit 1) as granted
         where e.from_state = 'running'
           and (e.lease, e.worker_id) is distinct from (granted.lease, granted.worker_id)
    """,
    "leases strictly increase": """
        select e.* from public.ledger as e
          join public.ledger as l on l.tenant_id = e.tenant_id and l.job_id = e.job_id and l.n < e.n
         where e.to_state = 'running' and l.lease >= e.lease
    """,
    "exactly the running jobs hold a lease": """
        select tenant_id, id from jobforge.jobs
         where (state = 'running') <> (worker_id is not null and lease_expires_at is not null)
    """,
    "every ended lease, and nothing else, leaves one attempt": """
        select e.tenant_id, e.job_id, e.lease, a.outcome, a.n as attempts
          from (select tenant_id, job_id, lease, worker_id from public.ledger
                 where from_state = 'running' and to_state <> 'erased') as e
          full join (select tenant_id, job_id, lease, worker_id, min(outcome) as outcome,
                            count(*) as n
                       from jobforge.all_attempts group by 1, 2, 3, 4) as a
         using (tenant_id, job_id, lease, worker_id)
         where e.job_id is null or a.n is distinct from 1
    """,
    "attempts are counted, except released or snoozed ones": """
        select j.tenant_id, j.id, j.attempt, c.counted
          from jobforge.all_jobs as j
         cross join lateral (
               select count(*) + case when j.state = 'running' then 1 else 0 end as counted
                 from jobforge.all_attempts as a
                where a.tenant_id = j.tenant_id and a.job_id = j.id
                  and a.outcome not in ('released', 'snoozed')) as c
         where j.attempt <> c.counted
    """,
    "attempts stay within the allowance": """
        select * from public.ledger where attempt > max_attempts
    """,
    "every claim has ended or is running": """
        select s.* from public.ledger as s
         where s.to_state = 'running'
           and (select count(*) from public.ledger as e
                 where e.tenant_id = s.tenant_id and e.job_id = s.job_id and e.lease = s.lease
                   and e.from_state = 'running')
               + (select count(*) from jobforge.jobs as j
                   where j.tenant_id = s.tenant_id and j.id = s.job_id and j.lease = s.lease
                     and j.state = 'running') <> 1
    """,
}


class Ledger:
    """The ledger of one test database, from its creation on; it needs the superuser's
    connection."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        conn.execute(_INSTALL)

    def check(self) -> None:
        """Fail with the rows that break a rule. Call this when no transaction is open."""
        broken = {rule: rows for rule in _RULES if (rows := self._breaking(rule))}
        assert not broken, broken

    def rows(self) -> list[Row]:
        return self._conn.execute("select * from public.ledger order by n").fetchall()

    def clear(self) -> None:
        """Delete all entries, for the next run in a database whose jobs are deleted too."""
        self._conn.execute("truncate public.ledger")

    def _breaking(self, rule: str) -> list[Row]:
        return self._conn.execute(_RULES[rule].encode()).fetchall()
