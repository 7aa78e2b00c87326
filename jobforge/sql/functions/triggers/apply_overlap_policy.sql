-- Applies the overlap policy of a schedule to its unfinished jobs before it fires again. Returns
-- null if it may fire, else the reason. Locks the jobs that it cancels as lock_jobs does. Called by
-- fire_one.
--   allow           always fires
--   skip            does not fire while a job is unfinished
--   queue           does not fire while a job has not started
--   cancel_running  cancels jobs that have not started, and requests a cancel of running ones
create or replace function jobforge_private.apply_overlap_policy(
    p_tenant_id uuid,
    p_trigger_id uuid,
    p_overlap text
) returns text
language plpgsql
as $$
declare
    v_job uuid;
    v_rows tid[];
begin
    if p_overlap in ('skip', 'queue') then
        select j.id into v_job
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.source = 'schedule'
           and j.source_ref = p_trigger_id::text
           and j.state in ('scheduled', 'blocked', 'queued',
                           case p_overlap when 'skip' then 'running' end)
         limit 1;
        return case p_overlap when 'skip' then 'job ' || v_job || ' is not finished'
                    else 'job ' || v_job || ' is still waiting' end;
    elsif p_overlap = 'cancel_running' then
        v_rows := jobforge_private.lock_jobs(p_tenant_id, array(
            select j.id
              from jobforge.jobs as j
             where j.tenant_id = p_tenant_id and j.source = 'schedule'
               and j.source_ref = p_trigger_id::text
               and j.state in ('scheduled', 'blocked', 'queued', 'running')));
        perform jobforge_private.request_cancel(v_rows, 'the schedule fired again');
        perform jobforge_private.cancel_rows(v_rows, 'the schedule fired again');
    end if;
    return null;
end $$;
