-- Enqueues the hooks of a job that reached its end, in the statement that ends it: a job of the
-- definition `<key>:hooks`. p_end has job_id, definition, version, state, attempt, payload, and
-- result, error and reason where there is one. Called only for jobs whose flag says that their
-- definition has hooks. Always true; where there is no such definition, or it is not active, the
-- job's timeline says so: its end must not fail for it.
create or replace function jobforge.follow_up(
    p_tenant_id uuid,
    p_priority smallint,
    p_correlation_id text,
    p_traceparent text,
    p_end jsonb
) returns boolean
language plpgsql
as $$
declare
    v_name text := p_end ->> 'definition' || ':hooks';
    v_hooks jobforge.definitions;
begin
    -- Looked up here rather than caught below: a subtransaction for each job of a batch would
    -- slow down every snapshot of the server.
    select * into v_hooks from jobforge.find_definition(v_name, (p_end ->> 'version')::integer);
    if v_hooks.is_active is not true then
        perform jobforge.note_event(p_tenant_id, (p_end ->> 'job_id')::uuid, 'hooks_skipped',
            jsonb_build_object(
                'definition', v_name, 'version', p_end -> 'version',
                'reason', case when v_hooks.key is null then 'unknown_definition'
                               else 'definition_inactive' end));
        return true;
    end if;
    perform jobforge.insert_job(
        p_tenant_id, v_name, '{"result": null, "error": null, "reason": null}' || p_end,
        jsonb_strip_nulls(jsonb_build_object(
            'version', p_end -> 'version', 'priority', p_priority,
            'correlation_id', p_correlation_id, 'traceparent', p_traceparent)),
        'system', p_end ->> 'job_id');
    return true;
end $$;
