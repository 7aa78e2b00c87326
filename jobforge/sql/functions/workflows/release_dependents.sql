-- Releases what waited for jobs that ended, in the same transaction: frees or cancels their blocked
-- children and finishes their workflows. Called by follow_up for jobs that others wait for. The
-- transaction that finishes the last parent frees a blocked job. Two transactions that finish
-- parents at the same time wait for each other at the child's row; the next statement of the second
-- one then sees that the first was not the last. If a parent did not succeed, the child's policy
-- decides: it is canceled with all jobs that wait for it, runs anyway, or stays blocked. Locks
-- blocked jobs in order of (tenant_id, id), then workflows. The caller has locked other jobs
-- before: blocked ones come last everywhere.
create or replace function jobforge_private.release_dependents(p_ended jobforge.ended_job[])
returns void
language plpgsql
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_rows tid[];
    v_tenants uuid[];
    v_waiters uuid[];
    v_parents uuid[];
    v_withins boolean[];
    v_dooms boolean[];
    v_doomed_tenants uuid[] := '{}';
    v_doomed uuid[] := '{}';
    v_later_tenants uuid[];
    v_later uuid[];
    v_live uuid[];
begin
    -- `offset 0` enforces one index lookup per job: a plan made for a small table would be wrong
    -- for a large one.
    select array_agg(a.row_id), array_agg(e.tenant_id), array_agg(a.waiter_id), array_agg(e.id),
           array_agg(a.is_within),
           array_agg(e.state <> 'succeeded' and a.on_parent_failure = 'cancel')
      into v_rows, v_tenants, v_waiters, v_parents, v_withins, v_dooms
      from unnest(p_ended) as e
     cross join lateral (
        select q.ctid as row_id, q.waiter_id, q.is_within, q.on_parent_failure
          from jobforge.awaited_jobs as q
         where q.tenant_id = e.tenant_id and q.job_id = e.id
        offset 0) as a
     where e.flags & 2 = 2 and e.state in ('succeeded', 'canceled', 'dead')
       and not (e.state <> 'succeeded' and a.on_parent_failure = 'wait');
    delete from jobforge.awaited_jobs as a where a.ctid = any (v_rows);

    if true = any (v_dooms) then
        with recursive doomed as (
            select w.tenant_id, w.id
              from unnest(v_tenants, v_waiters, v_dooms) as w(tenant_id, id, is_doomed)
             where w.is_doomed
            union
            select a.tenant_id, a.waiter_id
              from doomed as d
              join jobforge.awaited_jobs as a on a.tenant_id = d.tenant_id and a.job_id = d.id
             where a.on_parent_failure = 'cancel'
        )
        select array_agg(d.tenant_id), array_agg(d.id) into v_doomed_tenants, v_doomed
          from doomed as d;
        -- Canceling the doomed jobs frees others. A retried parent is newer than its children, so
        -- those are not always later in the lock order: they are locked in the same pass.
        select array_agg(a.tenant_id), array_agg(a.waiter_id) into v_later_tenants, v_later
          from unnest(v_doomed_tenants, v_doomed) as d(tenant_id, id)
          join jobforge.awaited_jobs as a on a.tenant_id = d.tenant_id and a.job_id = d.id
         where a.on_parent_failure = 'run';
    end if;
    if v_waiters is not null then
        select array_agg(j.id) into v_live
          from (select w.tenant_id, w.id
                  from unnest(v_tenants || v_doomed_tenants || v_later_tenants,
                              v_waiters || v_doomed || v_later) as w(tenant_id, id)
                 group by w.tenant_id, w.id
                 order by w.tenant_id, w.id) as w
         cross join lateral (
            select q.id from jobforge.jobs as q
             where q.tenant_id = w.tenant_id and q.id = w.id and q.state || '' = 'blocked'
               for update) as j;
        perform jobforge_private.unblock_jobs(v_tenants, v_waiters, v_doomed);
        perform jobforge_private.cancel_dependents(v_doomed_tenants, v_doomed, p_ended);
    end if;

    -- A workflow continues if a child within it does. The other workflows are checked.
    select array_agg(e.tenant_id), array_agg(e.id) into v_tenants, v_waiters
      from unnest(p_ended) as e
     where e.flags & 2 = 2 and e.state in ('succeeded', 'canceled', 'dead')
       and e.id not in (
           select f.parent_id
             from unnest(v_waiters, v_parents, v_withins) as f(waiter_id, parent_id, is_within)
            where f.is_within
              -- With `is true` the planner hashes the subquery; otherwise it would run nested
              -- loops.
              and (f.waiter_id in (select unnest(v_live))) is true
              and f.waiter_id not in (select unnest(v_doomed)));
    if v_waiters is not null then
        perform jobforge_private.advance_workflows(v_tenants, v_waiters);
    end if;
end $$;
