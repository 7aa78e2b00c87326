-- Erases the data of a job from other tables: errors and output of its attempts, its timeline
-- except kinds and times, its steps and keys, the webhook messages about it, and details in the
-- audit log. The caller has locked the job. Called by erase_job.
create or replace function jobforge_private.erase_job_history(
    p_tenant_id uuid,
    p_job_id uuid,
    p_created_at timestamptz,
    p_mark jsonb
) returns void
language plpgsql
as $$
declare
    v_senders uuid[];
begin
    update jobforge.attempts as a
       set error = jobforge_private.redact_error(a.error), stdout_tail = null, stderr_tail = null
     where a.tenant_id = p_tenant_id and a.job_id = p_job_id;
    delete from jobforge.job_events as e
     where e.tenant_id = p_tenant_id and e.job_id = p_job_id
       and e.kind in ('progress', 'log', 'event');
    update jobforge.job_events as e
       set data = null
     where e.tenant_id = p_tenant_id and e.job_id = p_job_id and e.data is not null;
    delete from jobforge.steps as s where s.tenant_id = p_tenant_id and s.job_id = p_job_id;
    delete from jobforge.idempotency_keys as k
     where k.tenant_id = p_tenant_id and k.job_id = p_job_id;
    update jobforge.webhook_deliveries as d
       set message = p_mark, error = null, response = null
     where d.tenant_id = p_tenant_id and d.subject_id = p_job_id
       and d.created_at >= p_created_at;
    -- The jobs that send these messages have the job's correlation ID.
    v_senders := array(
        select d.job_id from jobforge.webhook_deliveries as d
         where d.tenant_id = p_tenant_id and d.subject_id = p_job_id
           and d.created_at >= p_created_at and d.job_id is not null
         order by d.job_id);
    -- lint: it does not depend on the state
    update jobforge.jobs as j
       set correlation_id = null
     where j.tenant_id = p_tenant_id and j.id = any (v_senders);
    update jobforge.finished_jobs as f
       set correlation_id = null
     where f.tenant_id = p_tenant_id and f.id = any (v_senders);
    update jobforge.audit_log as l
       set detail = null
     where l.tenant_id = p_tenant_id and l.target = p_job_id::text and l.detail is not null
       and l.at >= jobforge_private.earliest_history(p_job_id);
end $$;
