-- Workers call this for the configuration that a job names: returns it with its secrets as stored,
-- references and sealed values. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.open_connector_config(
    p_name text,
    p_tenant_id uuid default null
) returns table (id uuid, settings jsonb, secrets jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    return query
    select c.id, jobforge_private.readable(c.settings), jobforge_private.readable(c.secrets)
      from jobforge.connector_configs as c
     where c.tenant_id = v_tenant and c.name = p_name;
    if not found then
        perform jobforge_private.refuse('JF004',
            'Connector configuration not found', '{"field": "config"}');
    end if;
end $$;
