-- One job: enqueue_jobs for a definition and a payload; p_options are the other fields. A plain
-- one, to run now and without an idempotency key, goes a shorter way (insert_job): applications
-- enqueue one at a time, and enqueue_jobs is made for many. Raises what enqueue_jobs raises.
create or replace function jobforge.enqueue_job(
    p_definition text,
    p_payload jsonb default '{}',
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns table (job_id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_plain constant text[] := '{version,queue,priority,max_attempts,timeout_s,limit_key,tags,
        correlation_id,traceparent,created_by,artifact_ref}';
    v_tenant uuid := jobforge.require_tenant(p_tenant_id);
begin
    if p_definition is not null and jsonb_typeof(p_payload) = 'object'
       and (p_options = '{}'
            or jsonb_typeof(p_options) = 'object' and p_options - v_plain = '{}')
    then
        perform jobforge.check_job(p_definition, p_payload, p_options);
        job_id := jobforge.insert_job(v_tenant, p_definition, p_payload, p_options);
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
