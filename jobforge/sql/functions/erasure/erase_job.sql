-- Applications call this to erase the data of one job: payload, result, error messages, tags, keys,
-- output, timeline notes, steps, and the messages that webhooks sent about it. Its ID, times,
-- states and numbers stay, and so does its place in counts, statistics and workflows. The job must
-- be finished or dead. An erased job cannot be retried. Safe to repeat. Returns the artifact
-- folders that no job needs any more, for the caller to delete; the artifact sweep deletes those
-- that are left. Locks the job. Raises JF001, JF004, JF005 (not finished: cancel it first), JF006,
-- JF014.
create or replace function jobforge.erase_job(p_job_id uuid, p_tenant_id uuid default null)
returns text[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_mark jsonb := jsonb_build_object('$erased', jobforge_private.now());
    v_state text;
    v_created_at timestamptz;
begin
    select j.state, j.created_at into v_state, v_created_at
      from jobforge.jobs as j
     where j.tenant_id = v_tenant and j.id = p_job_id
       for update;
    if v_state = 'dead' then
        update jobforge.jobs as j
           set payload = v_mark, error = jobforge_private.redact_error(j.error),
               flags = j.flags | 8, tags = null, idempotency_key = null, limit_key = null,
               gate = null, correlation_id = null, created_by = null, cancel_reason = null
         where j.tenant_id = v_tenant and j.id = p_job_id and j.state || '' = 'dead';
    elsif v_state is null then
        update jobforge.finished_jobs as f
           set payload = v_mark, result = null, error = jobforge_private.redact_error(f.error),
               flags = f.flags | 8, tags = null, idempotency_key = null, limit_key = null,
               correlation_id = null, created_by = null, cancel_reason = null
         where f.tenant_id = v_tenant and f.id = p_job_id
        returning f.created_at into v_created_at;
    end if;
    if v_created_at is null or v_state <> 'dead' then
        perform jobforge_private.refuse_job_action(v_tenant, p_job_id,
            'erased; cancel the job first');
    end if;
    perform jobforge_private.erase_job_history(v_tenant, p_job_id, v_created_at, v_mark);
    perform jobforge_private.record_job_event(v_tenant, p_job_id, 'erased');
    perform jobforge_private.audit(v_tenant, 'job.erase', p_job_id::text);
    return jobforge_private.job_artifact_folders(v_tenant, p_job_id);
end $$;
