-- Refuses callbacks of a workflow or batch that could not be enqueued. Called by check_workflow and
-- check_batch. Raises JF002, JF007, JF009, JF010.
create or replace function jobforge_private.check_callbacks(p_document jsonb) returns void
language plpgsql
as $$
declare
    v_name text;
    v_callback jsonb;
begin
    foreach v_name in array '{on_success,on_failure,on_complete}'::text[] loop
        v_callback := p_document -> v_name;
        continue when v_callback is null;
        -- A callback runs immediately, so fields about time and keys are refused.
        if jsonb_typeof(v_callback) <> 'object'
           or v_callback - '{definition,version,payload,queue,priority,max_attempts,timeout_s,
                             limit_key,tags,correlation_id,traceparent}'::text[] <> '{}' then
            perform jobforge_private.refuse('JF002',
                format('%s must be a job to enqueue', v_name),
                jsonb_build_object('field', v_name));
        end if;
        perform jobforge_private.check_jobs(jsonb_build_array(v_callback));
        perform jobforge_private.resolve_definition(
            v_callback ->> 'definition', (v_callback ->> 'version')::integer);
    end loop;
end $$;
