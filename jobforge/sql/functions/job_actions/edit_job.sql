-- Applications call this to change a job that is not running: payload, priority, queue, run_at
-- (null: as soon as possible). Returns its state. Locks the job. Raises JF001, JF002, JF004, JF005
-- (running, dead or finished), JF006, JF007, JF014.
create or replace function jobforge.edit_job(
    p_job_id uuid,
    p_changes jsonb,
    p_tenant_id uuid default null
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz;
    v_run_at timestamptz;
    v_job jobforge.jobs;
begin
    perform jobforge_private.check_job_changes(p_changes);
    select j.* into v_job
      from jobforge.jobs as j
     where j.tenant_id = v_tenant and j.id = p_job_id
       and j.state in ('scheduled', 'blocked', 'queued')
       for update;
    if not found then
        perform jobforge_private.refuse_job_action(v_tenant, p_job_id, 'edited');
    end if;

    v_now := jobforge_private.now();
    v_run_at := case when p_changes ? 'run_at'
                     then greatest(v_now, (p_changes ->> 'run_at')::timestamptz)
                     else v_job.run_at end;
    v_job.queue := coalesce(p_changes ->> 'queue', v_job.queue);
    update jobforge.jobs as j
       set payload = coalesce(p_changes -> 'payload', j.payload),
           priority = coalesce((p_changes ->> 'priority')::smallint, j.priority),
           queue = v_job.queue,
           run_at = v_run_at,
           state = case when j.state = 'blocked' then 'blocked'
                        when v_run_at <= v_now then 'queued' else 'scheduled' end,
           queued_at = case when j.state = 'blocked' or v_run_at > v_now then null
                            else coalesce(j.queued_at, v_now) end,
           gate = jobforge_private.current_gate(v_job.queue, v_tenant, j.definition, j.limit_key)
     where j.tenant_id = v_tenant and j.id = p_job_id
       and j.state in ('scheduled', 'blocked', 'queued')
    returning j.state into v_job.state;

    perform jobforge_private.record_job_event(v_tenant, p_job_id, 'edited', p_changes - 'payload');
    perform jobforge_private.audit(v_tenant, 'job.edit', p_job_id::text, p_changes - 'payload');
    if v_job.state = 'queued' then
        perform jobforge_private.notify_channel('jobforge:' || v_job.queue);
    end if;
    return v_job.state;
end $$;
