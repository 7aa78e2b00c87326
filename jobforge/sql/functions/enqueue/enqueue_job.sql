-- Applications call this to enqueue one job: enqueue_jobs for a definition and a payload; p_options
-- are the other fields. Without keys and parents it uses enqueue_payloads, which is faster. Raises
-- what enqueue_jobs raises.
create or replace function jobforge.enqueue_job(
    p_definition text,
    p_payload jsonb default '{}',
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns table (job_id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_definition is not null and jsonb_typeof(p_payload) = 'object'
       and jsonb_typeof(p_options) = 'object'
       and not p_options ?| '{definition,payload,key,key_mode,key_window_s,on_conflict,after,
                              on_parent_failure}'::text[] then
        job_id := jobforge.enqueue_payloads(
            p_definition, jsonb_build_array(p_payload), p_options, p_tenant_id);
        status := 'created';
        return next;
        return;
    end if;
    return query
    select e.job_id, e.status
      from jobforge.enqueue_jobs(
               jsonb_build_array(coalesce(p_options, '{}')
                   || jsonb_build_object('definition', p_definition, 'payload', p_payload)),
               p_tenant_id) as e;
end $$;
