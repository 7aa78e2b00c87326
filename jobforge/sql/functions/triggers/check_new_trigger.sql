-- Refuses invalid settings of a trigger to create, as check_trigger does, and missing ones (JF002
-- with the field). Called by create_trigger and declare_triggers.
create or replace function jobforge_private.check_new_trigger(p_type text, p_settings jsonb)
returns void
language plpgsql
as $$
declare
    v_missing text;
begin
    perform jobforge_private.check_trigger(p_type, p_settings);
    select f.name into v_missing
      from unnest(array['label', 'definition', case p_type when 'event' then 'event'
                                                     else 'cron' end]) as f(name)
     where not p_settings ? f.name
     limit 1;
    if found then
        perform jobforge_private.refuse('JF002', format('%s is required', v_missing),
            jsonb_build_object('field', v_missing));
    end if;
end $$;
