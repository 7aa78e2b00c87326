-- Refuses an event with an invalid name or option (JF002 with the field), or with data that is too
-- large or too deep (JF007). Called by emit_event.
create or replace function jobforge_private.check_event(p_name text, p_data jsonb, p_options jsonb)
returns void
language plpgsql
as $$
declare
    v_other text;
    v_fault record;
begin
    if p_name is null or p_name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$' then
        perform jobforge_private.refuse('JF002',
            'name must be 1 to 200 letters, digits and _ . : -, such as order.paid',
            '{"field": "name"}');
    elsif jsonb_typeof(p_data) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'data must be a JSON object', '{"field": "data"}');
    -- `#> '{}'`: see docs/query-plans.md, "Sizes of JSON values".
    elsif pg_column_size(p_data #> '{}') > 262144 then
        perform jobforge_private.refuse('JF007', 'data is larger than 256 KiB',
            '{"field": "data", "limit": 262144}');
    elsif not jobforge_private.is_bounded(p_data) then
        perform jobforge_private.refuse_unbounded('data', p_data);
    -- 500 bytes: see docs/query-plans.md, "Sizes of JSON values".
    elsif pg_column_size(p_data #> '{}') > 500
          and jsonb_path_exists(p_data, 'strict $.**{65 to last}') then
        perform jobforge_private.refuse('JF007', 'data is nested more than 64 levels deep',
            '{"field": "data", "limit": 64}');
    elsif p_options = '{}' then
        return;
    elsif not jobforge_private.is_bounded(p_options) then
        perform jobforge_private.refuse_unbounded('options', p_options);
    elsif jsonb_typeof(p_options) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'options must be a JSON object',
            '{"field": "options"}');
    end if;
    select o.name into v_other
      from jsonb_object_keys(p_options) as o(name)
     where o.name not in ('correlation_id', 'key', 'traceparent');
    if found then
        perform jobforge_private.refuse('JF002', format('%s is not a valid event option', v_other),
            jsonb_build_object('field', v_other));
    end if;
    v_fault := jobforge_private.job_fault(p_options || '{"definition": "event"}');
    if v_fault.field is not null then
        perform jobforge_private.refuse('JF002', format('%s %s', v_fault.field, v_fault.rule),
            jsonb_build_object('field', v_fault.field));
    end if;
end $$;
