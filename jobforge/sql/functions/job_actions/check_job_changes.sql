-- Refuses invalid changes to a job. Called by edit_job and retry_job. Raises JF002 with the field,
-- and JF007.
create or replace function jobforge_private.check_job_changes(p_changes jsonb) returns void
language plpgsql
as $$
declare
    v_field text;
begin
    perform jobforge_private.check_bounded('changes', p_changes);
    if jsonb_typeof(p_changes) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'changes must be a JSON object',
            '{"field": "changes"}');
    end if;
    select c.key into v_field from jsonb_object_keys(p_changes) as c(key)
     where c.key not in ('payload', 'priority', 'queue', 'run_at') limit 1;
    if found then
        perform jobforge_private.refuse('JF002', format('%s cannot be changed', v_field),
            jsonb_build_object('field', v_field));
    end if;
    -- The rules of an enqueue apply.
    perform jobforge_private.check_jobs(jsonb_build_array('{"definition": "edited"}'
        || case when p_changes -> 'run_at' = 'null' then p_changes - 'run_at' else p_changes end));
end $$;
