-- Locks the blocked jobs that are freed or canceled because jobs that they wait for have finished,
-- in order of (tenant_id, id). `doomed` are the jobs that are canceled because a parent failed,
-- with all jobs that wait for them; `blocked` are all jobs that were blocked when they were locked.
-- Called by release_dependents.
create or replace function jobforge_private.lock_dependents(
    p_children jobforge.waiting_child[],
    out blocked uuid[],
    out doomed uuid[],
    out doomed_tenants uuid[]
)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_freed uuid[];
    v_freed_tenants uuid[];
begin
    doomed := '{}';
    doomed_tenants := '{}';
    if exists (select from unnest(p_children) as w where w.is_doomed) then
        with recursive canceled as (
            select w.tenant_id, w.child_id as id from unnest(p_children) as w where w.is_doomed
            union
            select a.tenant_id, a.waiter_id
              from canceled as c
              join jobforge.awaited_jobs as a on a.tenant_id = c.tenant_id and a.job_id = c.id
             where a.on_parent_failure = 'cancel'
        )
        select array_agg(c.tenant_id), array_agg(c.id) into doomed_tenants, doomed
          from canceled as c;
        -- Canceling the doomed jobs frees others. A retried parent is newer than its children, so
        -- those are not always later in the lock order: they are locked in the same pass.
        select array_agg(a.tenant_id), array_agg(a.waiter_id) into v_freed_tenants, v_freed
          from unnest(doomed_tenants, doomed) as c(tenant_id, id)
          join jobforge.awaited_jobs as a on a.tenant_id = c.tenant_id and a.job_id = c.id
         where a.on_parent_failure = 'run';
    end if;
    select array_agg(j.id) into blocked
      from (select c.tenant_id, c.id
              from (select w.tenant_id, w.child_id as id from unnest(p_children) as w
                    union all
                    select * from unnest(doomed_tenants || v_freed_tenants, doomed || v_freed))
                   as c
             group by c.tenant_id, c.id
             order by c.tenant_id, c.id) as c
     cross join lateral (
        select q.id from jobforge.jobs as q
         where q.tenant_id = c.tenant_id and q.id = c.id and q.state || '' = 'blocked'
           for update) as j;
end $$;
