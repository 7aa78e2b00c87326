-- Creates a tenant's configuration of a connector, which jobs refer to by name. Fields: name,
-- connector (http.request), settings, and secrets, each {"from": "env:NAME" | "file:NAME"} or
-- {"sealed": …}, sealed for p_id. Returns the ID. Raises JF001, JF002, JF005 (the name or ID is
-- taken, or the tenant has 100), JF006, JF014.
create or replace function jobforge.create_connector_config(
    p_id uuid,
    p_config jsonb,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_id uuid := coalesce(p_id, jobforge_private.uuid7());
    v_now timestamptz := jobforge_private.now();
begin
    perform jobforge_private.check_connector_config(p_config);
    if not p_config ? 'name' then
        perform jobforge_private.refuse('JF002', 'name is required', '{"field": "name"}');
    end if;
    if (select count(*) from jobforge.connector_configs as c where c.tenant_id = v_tenant) >= 100
    then
        perform jobforge_private.refuse('JF005',
            'The tenant has reached the limit of 100 connector configurations',
            '{"limit": 100}');
    end if;
    insert into jobforge.connector_configs (
           tenant_id, id, created_at, updated_at, connector, name, created_by, updated_by,
           settings, secrets)
    values (v_tenant, v_id, v_now, v_now, coalesce(p_config ->> 'connector', 'http.request'),
            p_config ->> 'name', jobforge_private.actor(), jobforge_private.actor(),
            coalesce(p_config -> 'settings', '{}'),
            jsonb_strip_nulls(coalesce(p_config -> 'secrets', '{}')));
    perform jobforge_private.audit(v_tenant, 'connector.create', v_id::text,
        jsonb_build_object('name', p_config -> 'name'));
    return v_id;
exception
    when unique_violation then
        perform jobforge_private.refuse('JF005',
            'A connector configuration with this name already exists',
            '{"field": "name"}');
end $$;
