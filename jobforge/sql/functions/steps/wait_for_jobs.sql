-- Makes a blocked job wait for those of some jobs that have not finished, whatever their result,
-- and returns how many. The caller has locked the job. Locks the others: jobs that are not blocked
-- first, each group in order of ID. Called by begin_waits.
create or replace function jobforge_private.wait_for_jobs(
    p_tenant_id uuid,
    p_job_id uuid,
    p_jobs uuid[]
) returns integer
language plpgsql
as $$
declare
    v_open uuid[];
begin
    perform jobforge_private.lock_parents(p_tenant_id, p_jobs);
    v_open := array(
        select j.id
          from (select distinct g.id from unnest(p_jobs) as g(id)) as w
         cross join lateral (
            select q.id from jobforge.jobs as q
             where q.tenant_id = p_tenant_id and q.id = w.id and q.state || '' <> 'dead'
               and q.id <> p_job_id
            offset 0) as j);
    insert into jobforge.awaited_jobs (tenant_id, waiter_id, job_id, is_within, on_parent_failure)
    select p_tenant_id, p_job_id, o.id, false, 'run' from unnest(v_open) as o(id)
        on conflict do nothing;
    return cardinality(v_open);
end $$;
