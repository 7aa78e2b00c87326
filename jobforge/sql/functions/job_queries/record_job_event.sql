-- Adds an entry to the timeline of a job that cannot be derived from its row and attempts.
create or replace function jobforge_private.record_job_event(
    p_tenant_id uuid,
    p_job_id uuid,
    p_kind text,
    p_data jsonb default null
) returns void
language sql
as $$
    insert into jobforge.job_events (tenant_id, job_id, at, kind, actor, data)
    values (p_tenant_id, p_job_id, jobforge_private.now(), p_kind, jobforge_private.actor(), p_data)
$$;
