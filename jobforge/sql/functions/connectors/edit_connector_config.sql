-- Changes the name and settings of a configuration, and those of its secrets that are given; null
-- removes a secret. A URL with another origin requires all secrets again, so that no one can send a
-- stored secret to an address of their choice. Locks the configuration. Raises JF001, JF002, JF004,
-- JF005 (the name is taken), JF006, JF014, JF015 (a secret is missing).
create or replace function jobforge.edit_connector_config(
    p_id uuid,
    p_config jsonb,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_old jobforge.connector_configs;
    v_missing text[];
begin
    perform jobforge_private.check_connector_config(p_config);
    select c.* into v_old from jobforge.connector_configs as c
     where c.tenant_id = v_tenant and c.id = p_id
       for update;
    if not found then
        perform jobforge_private.refuse('JF004', 'Connector configuration not found',
            jsonb_build_object('id', p_id));
    end if;
    if p_config ? 'settings'
       and jobforge_private.url_origin(p_config -> 'settings' ->> 'url')
           is distinct
               from jobforge_private.url_origin(jobforge_private.readable(v_old.settings) ->> 'url')
       then
        v_missing := array(select s.name from jsonb_object_keys(v_old.secrets) as s(name)
                            where not coalesce(p_config -> 'secrets' ? s.name, false)
                            order by s.name);
        if v_missing <> '{}' then
            perform jobforge_private.refuse('JF015',
                'The URL has another origin, so all secrets are required again',
                jsonb_build_object('field', 'secrets.' || v_missing[1], 'missing', v_missing),
                format('Send these secrets again, or null to remove them: %s',
                       array_to_string(v_missing, ', ')));
        end if;
    end if;
    update jobforge.connector_configs as c
       set name = coalesce(p_config ->> 'name', c.name),
           settings = coalesce(p_config -> 'settings', c.settings),
           secrets = jsonb_strip_nulls(c.secrets || coalesce(p_config -> 'secrets', '{}')),
           updated_at = jobforge_private.now(), updated_by = jobforge_private.actor()
     where c.tenant_id = v_tenant and c.id = p_id;
    perform jobforge_private.audit(v_tenant, 'connector.edit', p_id::text, jsonb_build_object(
        'fields', (select jsonb_agg(k.name) from jsonb_object_keys(p_config) as k(name))));
exception
    when unique_violation then
        perform jobforge_private.refuse('JF005',
            'A connector configuration with this name already exists',
            '{"field": "name"}');
end $$;
