-- Deletes the running jobs of a tenant that is being erased and wakes their workers, which then
-- hear that the leases are lost. Answers how many. Jobs that are being settled at this moment are
-- passed over, and nothing is waited for. Called by delete_tenant.
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
