-- Refuses a filter that is not an object, or has a field that is not in p_texts or p_times or has
-- the wrong type. Raises JF002.
create or replace function jobforge_private.check_filter(
    p_filter jsonb,
    p_texts text[],
    p_times text[]
) returns void
language plpgsql
as $$
declare
    v_field text;
    v_fault text;
begin
    perform jobforge_private.check_bounded('filter', p_filter);
    if jsonb_typeof(p_filter) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'filter must be a JSON object',
            '{"field": "filter"}');
    end if;
    for v_field in select jsonb_object_keys(p_filter) loop
        if v_field <> all (p_texts || p_times) then
            v_fault := 'is not a valid filter field';
        elsif jsonb_typeof(p_filter -> v_field) <> 'string' then
            v_fault := 'must be a string';
        elsif v_field = any (p_times) then
            v_fault := jobforge_private.time_fault(p_filter ->> v_field, true);
        end if;
        if v_fault is not null then
            perform jobforge_private.refuse('JF002', format('%s %s', v_field, v_fault),
                jsonb_build_object('field', v_field));
        end if;
    end loop;
end $$;
