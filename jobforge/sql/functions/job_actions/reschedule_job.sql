-- Applications call this to move a job that is not running to another time. Locks the job. Raises
-- JF001, JF002, JF004, JF005 (running, dead or finished), JF006, JF014.
create or replace function jobforge.reschedule_job(
    p_job_id uuid,
    p_run_at timestamptz,
    p_tenant_id uuid default null
) returns text
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select jobforge.edit_job(p_job_id, jsonb_build_object('run_at', p_run_at), p_tenant_id)
$$;
