-- Gives a job that has not started the content of a new enqueue (on_conflict = 'replace'); its ID,
-- creation time and parents stay. Returns false if it has started or finished. Called by
-- reserve_keys. Locks the job. Raises JF009 and JF010.
create or replace function jobforge_private.replace_job(
    p_tenant_id uuid,
    p_job_id uuid,
    p_job jsonb
) returns boolean
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_new record;
    v_definition jobforge.named_definition;
    v_run_at timestamptz;
    v_state text;
begin
    select * into v_new from jsonb_to_record(p_job) as n(
        definition text, version integer, payload jsonb, queue text, priority smallint,
        run_at timestamptz, delay_s double precision, expires_at timestamptz,
        expires_in_s double precision, max_attempts integer, timeout_s integer, limit_key text,
        tags text[], correlation_id text, traceparent text, created_by text, artifact_ref text);
    v_definition := jobforge_private.resolve_definition(v_new.definition, v_new.version);
    v_new.queue := coalesce(v_new.queue, v_definition.queue);
    v_run_at := greatest(v_now, v_new.run_at, v_now + make_interval(secs => v_new.delay_s));
    update jobforge.jobs as j
       set state = case when j.state = 'blocked' then 'blocked'
                        when v_run_at <= v_now then 'queued' else 'scheduled' end,
           run_at = v_run_at,
           queued_at = case when j.state <> 'blocked' and v_run_at <= v_now then v_now end,
           expires_at = coalesce(v_new.expires_at,
                                 v_now + make_interval(secs => v_new.expires_in_s)),
           version = v_definition.version,
           queue = v_new.queue,
           priority = coalesce(v_new.priority, 0),
           max_attempts = coalesce(v_new.max_attempts, v_definition.max_attempts),
           allowance = coalesce(v_new.max_attempts, v_definition.max_attempts),
           timeout_s = v_new.timeout_s,
           flags = j.flags & ~1 | v_definition.flags,
           limit_key = v_new.limit_key,
           gate = jobforge_private.current_gate(
               v_new.queue, p_tenant_id, j.definition, v_new.limit_key),
           tags = v_new.tags,
           correlation_id = v_new.correlation_id,
           traceparent = v_new.traceparent,
           created_by = v_new.created_by,
           artifact_ref = v_new.artifact_ref,
           payload = coalesce(v_new.payload, '{}')
     where j.tenant_id = p_tenant_id and j.id = p_job_id
       and j.state in ('scheduled', 'blocked', 'queued')
       and j.started_at is null
    returning j.state into v_state;
    if v_state = 'queued' then
        perform jobforge_private.notify_channel('jobforge:' || v_new.queue);
    end if;
    return v_state is not null;
end $$;
