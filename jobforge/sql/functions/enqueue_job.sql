-- One job: enqueue_jobs for a definition and a payload; p_options are the other fields.
create or replace function jobforge.enqueue_job(
    p_definition text,
    p_payload jsonb default '{}',
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns table (job_id uuid, status text)
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select e.job_id, e.status
      from jobforge.enqueue_jobs(
               jsonb_build_array(coalesce(p_options, '{}')
                   || jsonb_build_object('definition', p_definition, 'payload', p_payload)),
               p_tenant_id) as e
$$;
