-- Maintenance calls this once a minute to free blocked jobs that wait for nothing, or only for
-- parents that have finished (is_awaited). As a rule there are none, because the transaction that
-- finishes the last parent of a job frees the job; an older release, a restore, or a manual change
-- of the tables may have left some. Checks at most p_limit blocked jobs in order of (tenant_id,
-- id), from a position that is returned for the next call (null after the last), and returns how
-- many were freed. Locks the jobs that it frees and their stale rows of awaited_jobs, and skips
-- locked ones. Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.free_blocked_jobs(
    p_limit integer default 1000,
    inout after_tenant uuid default null,
    inout after_id uuid default null,
    out freed bigint
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_seen integer;
    v_tenants uuid[];
    v_jobs uuid[];
begin
    perform jobforge_private.require_read_committed('free_blocked_jobs');
    perform jobforge_private.check_limit(p_limit, 50000);
    with seen as materialized (
        select j.tenant_id, j.id
          from jobforge.jobs as j
         where j.state = 'blocked'
           and (j.tenant_id, j.id)
               > (coalesce(after_tenant, '00000000-0000-0000-0000-000000000000'),
                  coalesce(after_id, '00000000-0000-0000-0000-000000000000'))
         order by j.tenant_id, j.id
         limit p_limit
    ), checked as materialized (
        select s.tenant_id, s.id,
               not exists (select from jobforge.awaited_jobs as a
                            where a.tenant_id = s.tenant_id and a.waiter_id = s.id
                              -- As a rule the parent is there: the probe is cheap, the call is not.
                              -- Offset 0 prevents a hash of all jobs.
                              and (exists (select from jobforge.jobs as p
                                            where p.tenant_id = a.tenant_id and p.id = a.job_id
                                           offset 0)
                                   or jobforge_private.is_awaited(a))) as is_free
          from seen as s
    )
    select count(*), array_agg(c.tenant_id) filter (where c.is_free),
           array_agg(c.id) filter (where c.is_free),
           (array_agg(c.tenant_id order by c.tenant_id desc, c.id desc))[1],
           (array_agg(c.id order by c.tenant_id desc, c.id desc))[1]
      into v_seen, v_tenants, v_jobs, after_tenant, after_id
      from checked as c;
    freed := 0;
    if v_jobs is not null then
        with locked as materialized (
            select j.tenant_id, j.id
              from unnest(v_tenants, v_jobs) as s(tenant_id, id)
             cross join lateral (
                select q.tenant_id, q.id from jobforge.jobs as q
                 where q.tenant_id = s.tenant_id and q.id = s.id and q.state || '' = 'blocked'
                   for update skip locked) as j
        )
        select array_agg(l.tenant_id), array_agg(l.id) into v_tenants, v_jobs from locked as l;
        -- Later statements: they see what the transactions that held the locks have done.
        delete from jobforge.awaited_jobs as a
         where a.ctid = any (array(
               select e.ctid
                 from unnest(v_tenants, v_jobs) as l(tenant_id, id)
                 join jobforge.awaited_jobs as e
                   on e.tenant_id = l.tenant_id and e.waiter_id = l.id
                where not jobforge_private.is_awaited(e)
                  for update of e skip locked));
        perform jobforge_private.unblock_jobs(v_tenants, v_jobs);
        select count(*) into freed
          from unnest(v_tenants, v_jobs) as l(tenant_id, id)
          join jobforge.jobs as j on j.tenant_id = l.tenant_id and j.id = l.id
         where j.state || '' <> 'blocked';
    end if;
    if v_seen < p_limit then
        after_tenant := null;
        after_id := null;
    end if;
end $$;
