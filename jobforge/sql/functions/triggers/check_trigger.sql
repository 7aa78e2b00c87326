-- Refuses invalid settings of a trigger (JF002 with the field), and an unknown definition (JF009).
-- Called by the functions that create or change triggers.
create or replace function jobforge_private.check_trigger(p_type text, p_settings jsonb)
returns void
language plpgsql
as $$
declare
    v_fault record;
begin
    perform jobforge_private.check_bounded('settings', p_settings);
    if p_type is null or p_type not in ('schedule', 'event') then
        perform jobforge_private.refuse('JF002', 'type must be schedule or event',
            '{"field": "type"}');
    elsif jsonb_typeof(p_settings) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'settings must be a JSON object',
            '{"field": "settings"}');
    end if;
    perform jobforge_private.check_size('payload', p_settings -> 'payload');
    v_fault := jobforge_private.trigger_fault(p_type, p_settings);
    if v_fault.field is not null then
        perform jobforge_private.refuse('JF002', format('%s %s', v_fault.field, v_fault.rule),
            jsonb_build_object('field', v_fault.field));
    end if;
    if p_settings ? 'definition'
       and not exists (select from jobforge_private.find_definition(
                           p_settings ->> 'definition', (p_settings ->> 'version')::integer)) then
        perform jobforge_private.refuse('JF009',
            format('Unknown definition ''%s''', p_settings ->> 'definition'),
            jsonb_build_object('definition', p_settings -> 'definition',
                               'version', p_settings -> 'version'));
    end if;
end $$;
