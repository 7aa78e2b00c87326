-- Refuses an invalid connector configuration: unknown fields, an invalid name, settings or secrets
-- that are not objects or are too large, and secrets that are neither references nor sealed. A null
-- removes a secret. Called by create_connector_config and edit_connector_config. Raises JF002.
create or replace function jobforge_private.check_connector_config(p_config jsonb) returns void
language plpgsql
as $$
declare
    v_name text;
    v_secret jsonb;
    v_fault text;
begin
    perform jobforge_private.check_settings(p_config, '{name,connector,settings,secrets}');
    if p_config ? 'name' and (jsonb_typeof(p_config -> 'name') <> 'string'
            or p_config ->> 'name' !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$') then
        v_name := 'name';
        v_fault := 'must have 1 to 100 letters, digits and _ . -';
    elsif p_config ? 'connector'
          and p_config -> 'connector' is distinct from '"http.request"'::jsonb then
        v_name := 'connector';
        v_fault := 'must be http.request';
    elsif p_config ? 'settings' and (jsonb_typeof(p_config -> 'settings') <> 'object'
            or length(p_config ->> 'settings') > 16384) then
        v_name := 'settings';
        v_fault := 'must be an object of at most 16,384 characters';
    elsif p_config ? 'secrets' and (jsonb_typeof(p_config -> 'secrets') <> 'object'
            or length(p_config ->> 'secrets') > 131072) then
        v_name := 'secrets';
        v_fault := 'must be an object of at most 131,072 characters';
    end if;
    if v_fault is null and p_config ? 'secrets' then
        for v_name, v_secret in select s.key, s.value from jsonb_each(p_config -> 'secrets') as s
        loop
            if v_name !~ '^[A-Za-z_][A-Za-z0-9_]{0,49}$' then
                v_fault := 'is not a valid secret name';
            elsif v_secret <> 'null' and (
                    v_secret - 'sealed' = '{}' and jsonb_typeof(v_secret -> 'sealed') = 'string'
                    or v_secret - 'from' = '{}'
                       and v_secret ->> 'from' ~ '^(env|file):[A-Za-z0-9_.-]{1,100}$'
                ) is not true then
                v_fault := 'must be sealed or a reference such as env:NAME or file:NAME';
            end if;
            exit when v_fault is not null;
        end loop;
        v_name := 'secrets.' || v_name;
    end if;
    if v_fault is not null then
        perform jobforge_private.refuse('JF002', format('%s %s', v_name, v_fault),
            jsonb_build_object('field', v_name));
    end if;
exception
    -- Raised by a JSON operator for a secret that is a list or a number.
    when data_exception or invalid_parameter_value then
        perform jobforge_private.refuse('JF002',
            'Each secret must be an object', '{"field": "secrets"}');
end $$;
