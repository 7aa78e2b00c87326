-- Stores the final state of a workflow or batch and enqueues its callbacks, each once ever, also if
-- a dead job is revived and the workflow finishes a second time. One dead job makes it failed, else
-- one canceled job makes it canceled. The caller has locked the row. Called by advance_workflow.
create or replace function jobforge_private.finish_workflow(p_workflow jobforge.workflows)
returns void
language plpgsql
as $$
declare
    v_counts jsonb := jobforge_private.count_nodes(p_workflow);
    v_state text := case when v_counts ?| '{dead,failed}' then 'failed'
                         when v_counts ? 'canceled' then 'canceled' else 'succeeded' end;
    v_name text;
    v_callback jsonb;
    v_called text[] := p_workflow.called;
begin
    foreach v_name in array array['on_complete',
                                  case v_state when 'succeeded' then 'on_success'
                                               else 'on_failure' end]
    loop
        v_callback := p_workflow.callbacks -> v_name;
        continue when v_callback is null or v_name = any (v_called);
        v_called := v_called || v_name;
        -- The workflow must finish even if the definition was deactivated since.
        if exists (select from jobforge_private.find_definition(
                              v_callback ->> 'definition', (v_callback ->> 'version')::integer) as d
                    where d.is_active) then
            perform jobforge_private.insert_payloads(
                p_workflow.tenant_id, v_callback ->> 'definition',
                jsonb_build_array(coalesce(v_callback -> 'payload', '{}')),
                jsonb_strip_nulls(jsonb_build_object(
                    'correlation_id', p_workflow.correlation_id))
                || (v_callback - '{definition,payload}'::text[]),
                'system', p_workflow.id::text);
        else
            perform jobforge_private.audit(p_workflow.tenant_id, 'callback.skipped',
                p_workflow.id::text,
                jsonb_build_object('callback', v_name, 'definition', v_callback -> 'definition'));
        end if;
    end loop;
    update jobforge.workflows as w
       set state = v_state, finished_at = jobforge_private.now(), counts = v_counts,
           called = v_called
     where w.tenant_id = p_workflow.tenant_id and w.id = p_workflow.id;
end $$;
