-- Ends the waits of the tenant's jobs for an event that is being dispatched. Each wait receives one
-- event, and each event ends one wait of a job. Returns how many jobs were resumed. Locks the jobs
-- in order of ID; a job that times out at the same moment gets the event or the timeout, never
-- both. Called by resume_by_events.
create or replace function jobforge_private.resume_waits(
    p_tenant_id uuid,
    p_event_id uuid,
    p_name text,
    p_data jsonb
) returns integer
language plpgsql
as $$
declare
    v_jobs uuid[];
begin
    v_jobs := array(
        select w.job_id
          from jobforge.waits as w
         where w.tenant_id = p_tenant_id and w.kind = 'event' and w.name = p_name
           and p_data @> w.match);
    -- Checked once, not for each wait: the text of an event can have 2 MiB.
    if v_jobs = '{}' or jobforge_private.is_bounded(p_data) is not true then
        return 0;
    end if;
    perform
       from jobforge.jobs as j
      where j.tenant_id = p_tenant_id and j.id = any (v_jobs)
      order by j.id
        for update;
    -- A later statement: a job that was resumed while this transaction waited for its lock has no
    -- wait any more.
    return jobforge_private.resume_jobs(p_tenant_id, v_jobs, p_event_id, p_name, p_data);
end $$;
