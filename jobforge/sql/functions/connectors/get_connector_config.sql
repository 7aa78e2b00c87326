-- Returns one configuration of the tenant, without its secrets. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.get_connector_config(
    p_id uuid,
    p_tenant_id uuid default null
) returns table (
    id uuid, name text, connector text, settings jsonb, secrets jsonb, created_at timestamptz,
    created_by text, updated_at timestamptz, updated_by text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    return query
    select c.id, c.name, c.connector, jobforge_private.readable(c.settings),
           jobforge_private.mask_secrets(c.secrets), c.created_at, c.created_by, c.updated_at,
           c.updated_by
      from jobforge.connector_configs as c
     where c.tenant_id = v_tenant and c.id = p_id;
    if not found then
        perform jobforge_private.refuse('JF004', 'Connector configuration not found',
            jsonb_build_object('id', p_id));
    end if;
end $$;
