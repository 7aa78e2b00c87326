-- Deletes the running jobs of a tenant that is being erased, and notifies their workers, whose next
-- call reports the leases as lost. Returns how many. Skips jobs that are being settled; never
-- waits. Called by delete_tenant.
create or replace function jobforge_private.drop_running_jobs(p_tenant_id uuid) returns bigint
language plpgsql
as $$
declare
    v_lost bigint;
begin
    with lost as (
        delete from jobforge.jobs as j
         where j.state || '' = 'running' and j.ctid = any (array(
               select r.ctid from jobforge.jobs as r
                where r.state = 'running' and r.tenant_id = p_tenant_id
                  for update skip locked))
        returning j.worker_id
    )
    select coalesce(sum(w.jobs), 0) into v_lost
      from (select count(*) as jobs,
                   jobforge_private.notify_channel('jobforge:worker:' || l.worker_id)
              from lost as l group by l.worker_id) as w;
    return v_lost;
end $$;
