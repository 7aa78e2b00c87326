-- Refuses invalid settings of a webhook endpoint. Whether its address may be reached is checked by
-- the caller, and again when a message is sent. Called by create_webhook and edit_webhook. Raises
-- JF002.
create or replace function jobforge_private.check_webhook(p_settings jsonb) returns void
language plpgsql
as $$
declare
    v_field text;
    v_value jsonb;
    v_text text;
    v_fault text;
begin
    perform jobforge_private.check_bounded('settings', p_settings);
    if jsonb_typeof(p_settings) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'settings must be a JSON object',
            '{"field": "settings"}');
    end if;
    for v_field, v_value in select s.key, s.value from jsonb_each(p_settings) as s loop
        v_text := v_value #>> '{}';
        v_fault := case v_field
            when 'url' then case
                when jsonb_typeof(v_value) <> 'string' or length(v_text) > 2000
                     or v_text !~* '^https?://[^\s/?#@\\]+([/?#]\S*)?$'
                     or v_text ~ '[\x01-\x20\x7f]'
                then 'must be an http or https URL of at most 2000 characters without a user' end
            when 'events' then case
                when jsonb_typeof(v_value) <> 'array'
                     or jsonb_array_length(v_value) not between 1 and 5
                     or not v_value <@ '["start", "success", "failure", "dead", "end"]'
                then 'must be a list of start, success, failure, dead and end' end
            when 'definitions' then case
                when jsonb_typeof(v_value) <> 'null' and (
                     jsonb_typeof(v_value) <> 'array'
                     or jsonb_array_length(v_value) not between 1 and 100
                     or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string")')
                     or exists (select from jsonb_array_elements_text(v_value) as d(key)
                                 where d.key !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$'))
                then 'must be null or a list of 1 to 100 definition keys' end
            when 'description' then case
                when jsonb_typeof(v_value) not in ('string', 'null') or length(v_text) > 500
                then 'must be a string of at most 500 characters' end
            when 'enabled' then case
                when jsonb_typeof(v_value) <> 'boolean' then 'must be true or false' end
            else 'is not a webhook setting'
        end;
        if v_fault is not null then
            perform jobforge_private.refuse('JF002', format('%s %s', v_field, v_fault),
                jsonb_build_object('field', v_field));
        end if;
    end loop;
end $$;
