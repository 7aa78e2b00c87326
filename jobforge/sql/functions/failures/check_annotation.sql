-- Refuses invalid changes to the notes on a failure. Called by annotate_failure. Raises JF002.
create or replace function jobforge_private.check_annotation(p_changes jsonb) returns void
language plpgsql
as $$
declare
    v_field text;
    v_value jsonb;
    v_most integer;
    v_fault text;
begin
    perform jobforge_private.check_bounded('changes', p_changes);
    if jsonb_typeof(p_changes) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'changes must be a JSON object',
            '{"field": "changes"}');
    end if;
    for v_field, v_value in select c.key, c.value from jsonb_each(p_changes) as c loop
        v_most := case v_field when 'note' then 4000 when 'resolved_in' then 200 end;
        if v_field not in ('note', 'snoozed_until', 'resolved_in') then
            v_fault := 'cannot be changed';
        elsif jsonb_typeof(v_value) not in ('string', 'null') then
            v_fault := 'must be a string';
        elsif length(v_value #>> '{}') > v_most then
            v_fault := format('must have at most %s characters', v_most);
        elsif v_field = 'snoozed_until' then
            v_fault := jobforge_private.time_fault(v_value #>> '{}', false);
        end if;
        if v_fault is not null then
            perform jobforge_private.refuse('JF002', format('%s %s', v_field, v_fault),
                jsonb_build_object('field', v_field));
        end if;
    end loop;
end $$;
