-- Inserts jobs that differ only in their payloads: insert_jobs with single values for all that the
-- jobs share. p_payloads is an array of at least one; the nth job gets the ID nth_id(first, n). The
-- caller has checked p_options, which has no fields for keys or parents. Returns the ID of the
-- first job. Called by enqueue_payloads, and with source `system` for jobs that follow from an
-- accepted one; the pending limit does not apply to those. Raises JF008, JF009, JF010, JF014.
create or replace function jobforge_private.insert_payloads(
    p_tenant_id uuid,
    p_definition text,
    p_payloads jsonb,
    p_options jsonb,
    p_source text default 'manual',
    p_source_ref text default null
) returns uuid
language plpgsql
as $$
declare
    v_now timestamptz;
    v_first_id uuid := jobforge_private.uuid7();
    v_definition jobforge.named_definition;
    v_queue text;
    v_priority smallint;
    v_limits record;
    v_options record;
begin
    v_definition := jobforge_private.resolve_definition(
        p_definition, (p_options ->> 'version')::integer);
    v_queue := coalesce(p_options ->> 'queue', v_definition.queue);
    v_priority := coalesce((p_options ->> 'priority')::smallint, 0);
    select t.max_pending, t.erased_at is not null as is_erased,
           t.max_running is not null or t.rate_limit is not null or t.paused_at is not null
               or q.max_running is not null or q.rate_limit is not null as is_limited
      into v_limits
      from (select) as one  -- one row, even if neither exists
      left join jobforge.tenants as t on t.id = p_tenant_id
      left join jobforge.queues as q on q.name = v_queue;
    if v_limits.is_erased then
        perform jobforge_private.check_not_erased(p_tenant_id);
    end if;
    if v_limits.max_pending is not null and p_source <> 'system' then
        perform jobforge_private.check_pending_limit(
            p_tenant_id, v_limits.max_pending, jsonb_array_length(p_payloads), v_first_id);
    end if;
    v_now := jobforge_private.now();
    select nullif(greatest(v_now, o.run_at, v_now + make_interval(secs => o.delay_s)), v_now)
               as due_at,
           coalesce(o.expires_at, v_now + make_interval(secs => o.expires_in_s)) as expires_at,
           coalesce(o.max_attempts, v_definition.max_attempts) as max_attempts, o.timeout_s,
           jobforge_private.compute_gate(
               v_definition.key, o.limit_key, v_definition.is_key_limited, v_definition.is_limited,
               v_limits.is_limited) as gate,
           o.limit_key, o.tags, o.correlation_id, o.traceparent, o.created_by, o.artifact_ref
      into v_options
      from jsonb_to_record(p_options) as o(
           run_at timestamptz, delay_s double precision, expires_at timestamptz,
           expires_in_s double precision, max_attempts integer, timeout_s integer, limit_key text,
           tags text[], correlation_id text, traceparent text, created_by text, artifact_ref text);
    if v_options.due_at is null then
        perform jobforge_private.notify_queue(v_queue, p_tenant_id, v_priority, v_now);
    end if;
    insert into jobforge.jobs (
           tenant_id, id, created_at, run_at, queued_at, expires_at, version, max_attempts,
           allowance, timeout_s, priority, flags, state, definition, queue, source, gate,
           limit_key, source_ref, correlation_id, traceparent, created_by, artifact_ref, tags,
           payload)
    select p_tenant_id, jobforge_private.nth_id(v_first_id, e.index), v_now,
           coalesce(v_options.due_at, v_now), case when v_options.due_at is null then v_now end,
           v_options.expires_at, v_definition.version, v_options.max_attempts,
           v_options.max_attempts, v_options.timeout_s, v_priority, v_definition.flags,
           case when v_options.due_at is null then 'queued' else 'scheduled' end,
           v_definition.key, v_queue, p_source, v_options.gate, v_options.limit_key, p_source_ref,
           v_options.correlation_id, v_options.traceparent, v_options.created_by,
           v_options.artifact_ref, v_options.tags, e.payload
      from jsonb_array_elements(p_payloads) with ordinality as e(payload, index);
    return jobforge_private.nth_id(v_first_id, 1);
end $$;
