-- Workers call this to extend the lease of one job: heartbeat_jobs for one job of this worker.
-- Returns `ok`, `cancel` or `held`. Raises JF003 if the lease is lost, and JF012 outside READ
-- COMMITTED.
create or replace function jobforge.heartbeat_job(
    p_tenant_id uuid,
    p_job_id uuid,
    p_worker_id uuid,
    p_lease bigint,
    p_lease_s double precision default 30
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_status text;
begin
    perform jobforge_private.require_read_committed('heartbeat_job');
    select h.status into v_status
      from jobforge.heartbeat_jobs(p_worker_id, jsonb_build_array(jsonb_build_object(
               'tenant_id', p_tenant_id, 'job_id', p_job_id, 'lease', p_lease)), p_lease_s) as h
     where h.job_id = p_job_id;
    if v_status is null or v_status = 'lost' then
        perform jobforge_private.refuse('JF003', 'The lease of this job is lost',
            jsonb_build_object('job_id', p_job_id));
    end if;
    return v_status;
end $$;
