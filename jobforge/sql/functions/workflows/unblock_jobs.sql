-- Makes those of some blocked jobs ready that wait for nothing and are not in p_except. The caller
-- has locked the rows in an earlier statement, so this one sees what the transactions that it
-- waited for have done. Called by release_dependents, link_parents and free_blocked_jobs.
create or replace function jobforge_private.unblock_jobs(
    p_tenants uuid[],
    p_jobs uuid[],
    p_except uuid[] default '{}'
) returns void
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_rows tid[];
begin
    v_rows := array(
        select j.row_id
          from (select distinct g.tenant_id, g.id
                  from unnest(p_tenants, p_jobs) as g(tenant_id, id)
                 where g.id not in (select unnest(p_except))) as w
         cross join lateral (
            select q.ctid as row_id from jobforge.jobs as q
             where q.tenant_id = w.tenant_id and q.id = w.id and q.state || '' = 'blocked'
            offset 0) as j
         where not exists (select from jobforge.awaited_jobs as a
                            where a.tenant_id = w.tenant_id and a.waiter_id = w.id));
    if v_rows = '{}' then
        return;
    end if;
    perform jobforge_private.notify_queue(k.queue, k.tenant_id, k.priority, v_now)
       from (select distinct j.queue, j.tenant_id, j.priority
               from jobforge.jobs as j
              where j.ctid = any (v_rows) and j.run_at <= v_now) as k;
    -- run_at is at least now, so that scans of ready jobs need not start earlier.
    update jobforge.jobs as j
       set state = case when j.run_at <= v_now then 'queued' else 'scheduled' end,
           run_at = greatest(j.run_at, v_now),
           queued_at = case when j.run_at <= v_now then v_now end
     where j.ctid = any (v_rows) and j.state || '' = 'blocked';
end $$;
