-- Returns whether an earlier wait of the job already received this event: each event ends one wait
-- of a job.
create or replace function jobforge_private.has_consumed_event(
    p_tenant_id uuid,
    p_job_id uuid,
    p_name text,
    p_event_id uuid
) returns boolean
language sql stable
as $$
    select exists (
        select from jobforge.steps as s
         where s.tenant_id = p_tenant_id and s.job_id = p_job_id and s.kind = 'event'
           and s.name = p_name and s.result ->> 'id' = p_event_id::text)
$$;
