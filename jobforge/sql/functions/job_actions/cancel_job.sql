-- Applications call this to cancel a job. A job that is not running is canceled immediately (for a
-- dead job, this discards it); for a running job, a cancel is requested and its worker is notified.
-- Returns `canceled` or `canceling`. Safe to repeat. Locks the job, and if it is blocked, the jobs
-- that wait for it. Raises JF001, JF004, JF005 (it has succeeded), JF006, JF014, and JF012 outside
-- READ COMMITTED.
create or replace function jobforge.cancel_job(
    p_job_id uuid,
    p_reason text default null,
    p_tenant_id uuid default null
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_job record;
begin
    perform jobforge_private.require_read_committed('cancel_job');
    -- A blocked job may be newer than the jobs that wait for it, if it is a retry of their parent.
    -- So it is locked in one pass with them, in order of ID.
    if exists (select from jobforge.jobs as j
                where j.tenant_id = v_tenant and j.id = p_job_id and j.state || '' = 'blocked') then
        perform jobforge_private.lock_jobs(v_tenant, array[p_job_id]);
    end if;
    select j.ctid as row_id, j.state, j.worker_id into v_job
      from jobforge.jobs as j
     where j.tenant_id = v_tenant and j.id = p_job_id
       for update;
    if not found then
        if exists (select from jobforge.finished_jobs as f
                    where f.tenant_id = v_tenant and f.id = p_job_id and f.state = 'canceled') then
            return 'canceled';
        end if;
        perform jobforge_private.refuse_job_action(v_tenant, p_job_id, 'canceled');
    end if;

    perform jobforge_private.record_job_event(v_tenant, p_job_id, 'cancel_requested',
        jsonb_build_object('reason', p_reason));
    perform jobforge_private.audit(v_tenant, 'job.cancel', p_job_id::text,
        jsonb_build_object('reason', p_reason));
    if v_job.state <> 'running' then
        perform jobforge_private.cancel_rows(array[v_job.row_id], left(p_reason, 1000));
        return 'canceled';
    end if;
    update jobforge.jobs as j
       set cancel_requested_at = coalesce(j.cancel_requested_at, jobforge_private.now()),
           cancel_reason = coalesce(j.cancel_reason, left(p_reason, 1000))
     where j.ctid = v_job.row_id and j.state || '' = 'running';
    perform jobforge_private.notify_channel('jobforge:worker:' || v_job.worker_id);
    return 'canceling';
end $$;
