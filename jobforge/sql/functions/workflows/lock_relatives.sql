-- Locks jobs that are to be retried, their parents, and the blocked jobs that wait for them, in the
-- order of lock_parents. New jobs take the place of the old ones as children of those parents and
-- as parents of those jobs. Called by retry_job and retry_workflow before they lock a workflow.
create or replace function jobforge_private.lock_relatives(p_tenant_id uuid, p_jobs uuid[])
returns void
language sql
as $$
    select jobforge_private.lock_parents(p_tenant_id, array(
        select o.id from unnest(p_jobs) as o(id)
        union
        select d.parent_id
          from unnest(p_jobs) as o(id)
          join jobforge.dependencies as d on d.tenant_id = p_tenant_id and d.child_id = o.id
        union
        select a.waiter_id
          from unnest(p_jobs) as o(id)
          join jobforge.awaited_jobs as a on a.tenant_id = p_tenant_id and a.job_id = o.id))
$$;
