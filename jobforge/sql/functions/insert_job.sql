-- Inserts one plain job that is to run now: what insert_jobs does for many, with single values.
-- p_options is checked by the caller, and has none of the fields that concern time or keys. Called
-- by enqueue_job, and by follow_up with source `system`, which no pending limit holds up: it
-- follows from a job that was let in. Returns the id. Raises JF008, JF009, JF010.
create or replace function jobforge.insert_job(
    p_tenant_id uuid,
    p_definition text,
    p_payload jsonb,
    p_options jsonb,
    p_source text default 'manual',
    p_source_ref text default null
) returns uuid
language plpgsql
as $$
declare
    v_now timestamptz;
    v_id uuid := jobforge.uuid7();
    v_used jobforge.named_definition;
    v_queue text;
    v_priority smallint;
    v_limited record;
begin
    v_used := jobforge.use_definition(p_definition, (p_options ->> 'version')::integer);
    v_queue := coalesce(p_options ->> 'queue', v_used.queue);
    v_priority := coalesce((p_options ->> 'priority')::smallint, 0);
    select t.max_pending,
           t.max_running is not null or t.rate_limit is not null or t.paused_at is not null
               or q.max_running is not null or q.rate_limit is not null as is_limited
      into v_limited
      from (select) as one
      left join jobforge.tenants as t on t.id = p_tenant_id
      left join jobforge.queues as q on q.name = v_queue;
    if v_limited.max_pending is not null and p_source <> 'system' then
        perform jobforge.check_pending(p_tenant_id, v_limited.max_pending, 1);
    end if;
    v_now := jobforge.now();
    perform jobforge.announce_queue(v_queue, p_tenant_id, v_priority, v_now);
    insert into jobforge.jobs (
           tenant_id, id, created_at, run_at, queued_at, version, max_attempts, allowance,
           timeout_s, priority, flags, state, definition, queue, source, gate, limit_key,
           source_ref, correlation_id, traceparent, created_by, artifact_ref, tags, payload)
    values (p_tenant_id, v_id, v_now, v_now, v_now, v_used.version,
            coalesce((p_options ->> 'max_attempts')::integer, v_used.max_attempts),
            coalesce((p_options ->> 'max_attempts')::integer, v_used.max_attempts),
            (p_options ->> 'timeout_s')::integer, v_priority, v_used.flags, 'queued', v_used.key,
            v_queue, p_source,
            jobforge.gate(v_used.key, p_options ->> 'limit_key', v_used.is_key_limited,
                          v_used.is_limited, v_limited.is_limited),
            p_options ->> 'limit_key', p_source_ref, p_options ->> 'correlation_id',
            p_options ->> 'traceparent', p_options ->> 'created_by', p_options ->> 'artifact_ref',
            case when p_options ? 'tags'
                 then array(select jsonb_array_elements_text(p_options -> 'tags')) end,
            p_payload);
    return v_id;
end $$;
