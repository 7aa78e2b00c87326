-- Changes name and settings of a configuration; of its secrets those that are given, null takes one
-- back. Raises JF001, JF002, JF004, JF005 (the name is taken), JF006. Locks the configuration.
create or replace function jobforge.edit_connector_config(
    p_id uuid,
    p_config jsonb,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge.require_tenant(p_tenant_id);
begin
    perform jobforge.check_connector_config(p_config);
    update jobforge.connector_configs as c
       set name = coalesce(p_config ->> 'name', c.name),
           settings = coalesce(p_config -> 'settings', c.settings),
           secrets = jsonb_strip_nulls(c.secrets || coalesce(p_config -> 'secrets', '{}')),
           updated_at = jobforge.now(), updated_by = jobforge.actor()
     where c.tenant_id = v_tenant and c.id = p_id;
    if not found then
        perform jobforge.refuse('JF004', 'no such configuration', jsonb_build_object('id', p_id));
    end if;
    perform jobforge.audit(v_tenant, 'connector.edit', p_id::text, jsonb_build_object(
        'fields', (select jsonb_agg(k.name) from jsonb_object_keys(p_config) as k(name))));
exception
    when unique_violation then
        perform jobforge.refuse('JF005', 'a configuration has this name already',
            '{"field": "name"}');
end $$;
