-- Deletes the rows of awaited_jobs that name finished jobs of p_ended, and returns them. Keeps the
-- rows of a job that did not succeed if the child's policy is to stay blocked. Called by
-- release_dependents.
create or replace function jobforge_private.take_waiting_children(p_ended jobforge.ended_job[])
returns jobforge.waiting_child[]
language plpgsql
as $$
declare
    v_rows tid[];
    v_children jobforge.waiting_child[];
begin
    -- `offset 0` enforces one index lookup per job: a plan made for a small table would be wrong
    -- for a large one.
    select array_agg(a.row_id),
           array_agg(row(e.tenant_id, a.waiter_id, e.id, a.is_within,
                         e.state <> 'succeeded' and a.on_parent_failure = 'cancel')
                     ::jobforge.waiting_child)
      into v_rows, v_children
      from unnest(p_ended) as e
     cross join lateral (
        select q.ctid as row_id, q.waiter_id, q.is_within, q.on_parent_failure
          from jobforge.awaited_jobs as q
         where q.tenant_id = e.tenant_id and q.job_id = e.id
        offset 0) as a
     where e.flags & 2 = 2 and e.state in ('succeeded', 'canceled', 'dead')
       and not (e.state <> 'succeeded' and a.on_parent_failure = 'wait');
    delete from jobforge.awaited_jobs as a where a.ctid = any (v_rows);
    return coalesce(v_children, '{}');
end $$;
