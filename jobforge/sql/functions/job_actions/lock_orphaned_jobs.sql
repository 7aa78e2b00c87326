-- Locks up to p_limit blocked jobs, created before p_before, that wait for a parent that no longer
-- exists, and returns their rows. Locks the jobs that wait for them in the same pass, as lock_jobs
-- does. Leaves a job to the next call if another transaction has locked any of these, because
-- waiting for it could cause a deadlock. Called by sweep_workflows.
create or replace function jobforge_private.lock_orphaned_jobs(
    p_before timestamptz,
    p_limit integer
) returns tid[]
language plpgsql
set lock_timeout = '10ms'
as $$
declare
    v_job record;
    v_rows tid[] := '{}';
begin
    for v_job in
        select distinct j.tenant_id, j.id
          from jobforge.awaited_jobs as a
          join jobforge.jobs as j on j.tenant_id = a.tenant_id and j.id = a.waiter_id
         where j.state || '' = 'blocked' and j.created_at < p_before
           and not exists (select from jobforge.all_jobs as p
                            where p.tenant_id = a.tenant_id and p.id = a.job_id)
         order by j.tenant_id, j.id
         limit p_limit
    loop
        begin
            v_rows := v_rows || jobforge_private.lock_jobs(v_job.tenant_id, array[v_job.id]);
        exception
            when lock_not_available then null;
        end;
    end loop;
    return array(select j.ctid from jobforge.jobs as j
                  where j.ctid = any (v_rows) and j.state || '' = 'blocked');
end $$;
