-- Refuses settings that are not an object, have a field that is not in p_fields, or have values
-- with which no claim could calculate. Raises JF002.
create or replace function jobforge_private.check_settings(p_settings jsonb, p_fields text[])
returns void
language plpgsql
as $$
declare
    v_field text;
begin
    perform jobforge_private.check_bounded('settings', p_settings);
    if jsonb_typeof(p_settings) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'settings must be a JSON object',
            '{"field": "settings"}');
    end if;
    select s.key into v_field from jsonb_object_keys(p_settings) as s(key)
     where s.key <> all (p_fields) limit 1;
    if found then
        perform jobforge_private.refuse('JF002', format('Unknown setting ''%s''', v_field),
            jsonb_build_object('field', v_field));
    end if;
    if p_settings ? 'queue'
       and (jsonb_typeof(p_settings -> 'queue') <> 'string'
            or p_settings ->> 'queue' !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}$') then
        perform jobforge_private.refuse('JF002',
            'queue must be a name of at most 50 letters, digits and _ . : -',
            '{"field": "queue"}');
    end if;
    foreach v_field in array '{rate_period_s,rate_period_per_key_s}'::text[] loop
        if coalesce(p_settings -> v_field, 'null') <> 'null'
           and (case jsonb_typeof(p_settings -> v_field)
                when 'number' then not (p_settings ->> v_field)::numeric between 0.001 and 31622400
                else true end) then
            perform jobforge_private.refuse('JF002',
                format('%s must be a number of seconds from 0.001 to 31622400', v_field),
                jsonb_build_object('field', v_field));
        end if;
    end loop;
end $$;
