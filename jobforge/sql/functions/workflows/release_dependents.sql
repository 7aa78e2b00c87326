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
    v_children jobforge.waiting_child[] := jobforge_private.take_waiting_children(p_ended);
    v_blocked uuid[];  -- jobs that were blocked until now
    v_doomed uuid[];  -- those that are canceled because a parent failed
    v_doomed_tenants uuid[];
    v_tenants uuid[];
    v_jobs uuid[];
begin
    if v_children <> '{}' then
        select d.blocked, d.doomed, d.doomed_tenants into v_blocked, v_doomed, v_doomed_tenants
          from jobforge_private.lock_dependents(v_children) as d;
        perform jobforge_private.unblock_jobs(
            array(select w.tenant_id from unnest(v_children) as w),
            array(select w.child_id from unnest(v_children) as w), v_doomed);
        perform jobforge_private.cancel_dependents(v_doomed_tenants, v_doomed, p_ended);
    end if;

    -- A workflow continues if a child within it does. The other workflows are checked.
    select array_agg(e.tenant_id), array_agg(e.id) into v_tenants, v_jobs
      from unnest(p_ended) as e
     where e.flags & 2 = 2 and e.state in ('succeeded', 'canceled', 'dead')
       and e.id not in (
           select w.parent_id
             from unnest(v_children) as w
            where w.is_within
              -- With `is true` the planner hashes the subquery; otherwise it would run nested
              -- loops.
              and (w.child_id in (select unnest(v_blocked))) is true
              and w.child_id not in (select unnest(v_doomed)));
    if v_jobs is not null then
        perform jobforge_private.advance_workflows(v_tenants, v_jobs);
    end if;
end $$;
