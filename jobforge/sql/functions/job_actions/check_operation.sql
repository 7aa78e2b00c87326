-- Refuses an operation with an invalid kind, filter or option. Called by count_jobs and
-- start_operation. Raises JF002.
create or replace function jobforge_private.check_operation(
    p_kind text,
    p_filter jsonb,
    p_options jsonb
) returns void
language plpgsql
as $$
declare
    v_field text;
    v_value jsonb;
    v_allowed text[] := case p_kind
        when 'cancel' then '{reason}'::text[]
        when 'discard' then '{reason}'
        when 'retry' then '{reason,attempts}'
        when 'redrive' then '{reason,attempts,canary,rate}' end;
    v_fault text;
begin
    perform jobforge_private.check_bounded('options', p_options);
    if v_allowed is null then
        perform jobforge_private.refuse('JF002', 'kind must be cancel, retry, redrive or discard',
            '{"field": "kind"}');
    elsif jsonb_typeof(p_options) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'options must be a JSON object',
            '{"field": "options"}');
    end if;
    perform jobforge_private.read_filter(p_filter);
    for v_field, v_value in select o.key, o.value from jsonb_each(p_options) as o loop
        v_fault := case
            when v_field <> all (v_allowed)
                then format('is not an option of a %s operation', p_kind)
            when v_field = 'reason' then
                case when jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') > 1000
                     then 'must be a string of at most 1000 characters' end
            when jsonb_typeof(v_value) <> 'number' then 'must be a number'
            when v_field = 'rate' then
                case when not v_value::numeric between 0.001 and 100000
                     then 'must be between 0.001 and 100000' end
            when not v_value::numeric between 1 and 1000 or v_value::numeric % 1 <> 0
                then 'must be a whole number between 1 and 1000' end;
        if v_fault is not null then
            perform jobforge_private.refuse('JF002', format('%s %s', v_field, v_fault),
                jsonb_build_object('field', v_field));
        end if;
    end loop;
end $$;
