-- One job: enqueue_jobs for a definition and a payload; p_options are the other fields.
-- Applications enqueue one at a time, and enqueue_jobs is made for many, so one job has its own
-- ways. The shortest is for a job under no limit, with no options but its version and who made it;
-- if anything about a call is wrong, the longer ways say so. The next is for options that concern
-- neither keys nor parents (insert_alike). Raises what enqueue_jobs raises.
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
    v_tenant uuid := jobforge.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge.now();
    v_version integer;
    v_queue text;
    v_max_attempts integer;
    v_flags smallint;
    v_is_plain boolean;
    v_is_awake boolean;
begin
    select d.version, d.queue, d.max_attempts, d.hooks::integer,
           p_options - '{version,created_by}'::text[] = '{}'
           and coalesce(jsonb_typeof(p_options -> 'created_by'), 'string') = 'string'
           and length(coalesce(p_options ->> 'created_by', '')) <= 255
           and jsonb_typeof(p_payload) = 'object'
           -- Sixty-five levels take more bytes than that.
           and (pg_column_size(p_payload) <= 500
                or pg_column_size(p_payload) <= 262144
                   and not jsonb_path_exists(p_payload, 'strict $.**{65 to last}'))
           and d.paused_at is null and d.max_running is null and d.max_running_per_key is null
           and d.rate_limit is null and d.rate_limit_per_key is null
           and not exists (
               select from jobforge.tenants as t
                where t.id = v_tenant
                  and (t.max_pending is not null or t.max_running is not null
                       or t.rate_limit is not null or t.paused_at is not null))
           and not exists (
               select from jobforge.queues as q
                where q.name = d.queue
                  and (q.max_running is not null or q.rate_limit is not null)),
           -- As announce_queue, which would be a statement more.
           exists (
               select from jobforge.newly_ready_jobs(d.queue, v_tenant, 0::smallint, v_now))
      into v_version, v_queue, v_max_attempts, v_flags, v_is_plain, v_is_awake
      from jobforge.definitions as d
     where d.key = p_definition and d.is_active
       and (d.version::text = (p_options -> 'version')::text or not p_options ? 'version')
     order by d.version desc
     limit 1;
    if v_is_plain then
        job_id := jobforge.uuid7();
        status := 'created';
        if not v_is_awake then
            perform pg_notify('jobforge:' || v_queue, '');
        end if;
        insert into jobforge.jobs (
               tenant_id, id, created_at, run_at, queued_at, version, max_attempts, allowance,
               flags, state, definition, queue, created_by, payload)
        values (v_tenant, job_id, v_now, v_now, v_now, v_version, v_max_attempts,
                v_max_attempts, v_flags, 'queued', p_definition, v_queue,
                p_options ->> 'created_by', p_payload);
        return next;
        return;
    end if;

    if p_definition is not null and jsonb_typeof(p_payload) = 'object'
       and jsonb_typeof(p_options) = 'object'
       and p_options - '{version,queue,priority,run_at,delay_s,expires_at,expires_in_s,far_future,
               max_attempts,timeout_s,limit_key,tags,correlation_id,traceparent,created_by,
               artifact_ref}'::text[] = '{}' then
        perform jobforge.check_job(p_definition, p_payload, p_options);
        job_id := jobforge.insert_alike(
            v_tenant, p_definition, jsonb_build_array(p_payload), p_options);
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
