-- One outcome: complete_jobs for a job of this worker. Raises JF003 when the lease is lost.
create or replace function jobforge.complete_job(
    p_tenant_id uuid,
    p_job_id uuid,
    p_worker_id uuid,
    p_lease bigint,
    p_outcome jsonb default '{"outcome": "succeeded"}'
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_answer record;
begin
    select c.status, c.state into v_answer
      from jobforge.complete_jobs(p_worker_id, jsonb_build_array(
               p_outcome || jsonb_build_object(
                   'tenant_id', p_tenant_id, 'job_id', p_job_id, 'lease', p_lease))) as c;
    if v_answer.status is distinct from 'ok' then
        perform jobforge.refuse('JF003', 'the lease of this job is lost',
            jsonb_build_object('job_id', p_job_id));
    end if;
    return v_answer.state;
end $$;
