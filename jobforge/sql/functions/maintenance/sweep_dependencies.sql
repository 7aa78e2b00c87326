-- Deletes dependencies and awaited jobs between jobs that no longer exist, p_limit of each at most.
-- Returns how many. Called by sweep.
create or replace function jobforge_private.sweep_dependencies(
    p_before timestamptz,
    p_limit integer
) returns bigint
language plpgsql
as $$
declare
    v_waits bigint;
    v_edges bigint;
begin
    delete from jobforge.awaited_jobs as a
     where a.ctid = any (array(
           select e.ctid from jobforge.awaited_jobs as e
            where not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.id = e.job_id)
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.id = e.waiter_id)
            limit p_limit for update skip locked));
    get diagnostics v_waits = row_count;
    delete from jobforge.dependencies as d
     where d.ctid = any (array(
           select e.ctid from jobforge.dependencies as e
            where e.created_at < p_before
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id
                                 and j.id in (e.child_id, e.parent_id))
            limit p_limit for update skip locked));
    get diagnostics v_edges = row_count;
    return v_waits + v_edges;
end $$;
