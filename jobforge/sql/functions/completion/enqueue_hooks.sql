-- Enqueues the hooks of a job that finished: a job of definition `<key>:hooks`. Called by follow_up
-- for jobs whose flags say that their definition has hooks. If that definition does not exist or is
-- inactive, adds an entry to the job's timeline: the completion must not fail for it.
create or replace function jobforge_private.enqueue_hooks(p_ended jobforge.ended_job) returns void
language plpgsql
as $$
declare
    v_name text := p_ended.definition || ':hooks';
    v_hooks jobforge.definitions;
begin
    -- Looked up instead of catching an error: a subtransaction for each job of a batch would slow
    -- down every snapshot of the server.
    select * into v_hooks from jobforge_private.find_definition(v_name, p_ended.version);
    if v_hooks.is_active is not true then
        perform jobforge_private.record_job_event(p_ended.tenant_id, p_ended.id, 'hooks_skipped',
            jsonb_build_object(
                'definition', v_name, 'version', p_ended.version,
                'reason', case when v_hooks.key is null then 'unknown_definition'
                               else 'definition_inactive' end));
        return;
    end if;
    perform jobforge_private.insert_payloads(
        p_ended.tenant_id, v_name,
        jsonb_build_array(jsonb_build_object(
            'job_id', p_ended.id, 'definition', p_ended.definition, 'version', p_ended.version,
            'state', p_ended.state, 'attempt', p_ended.attempt, 'payload', p_ended.payload,
            'result', p_ended.result, 'error', p_ended.error, 'reason', p_ended.reason)),
        jsonb_strip_nulls(jsonb_build_object(
            'version', p_ended.version, 'priority', p_ended.priority,
            'correlation_id', p_ended.correlation_id, 'traceparent', p_ended.traceparent)),
        'system', p_ended.id::text);
end $$;
