-- Deletes a configuration and its secrets. Jobs that name it fail permanently. Locks the
-- configuration. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.delete_connector_config(
    p_id uuid,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_name text;
begin
    delete from jobforge.connector_configs as c
     where c.tenant_id = v_tenant and c.id = p_id
    returning c.name into v_name;
    if not found then
        perform jobforge_private.refuse('JF004', 'Connector configuration not found',
            jsonb_build_object('id', p_id));
    end if;
    perform jobforge_private.audit(v_tenant, 'connector.delete', p_id::text,
        jsonb_build_object('name', v_name));
end $$;
