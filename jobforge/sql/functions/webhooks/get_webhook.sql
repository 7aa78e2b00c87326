-- Returns one webhook endpoint of a tenant, without its secrets. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.get_webhook(p_id uuid, p_tenant_id uuid default null)
returns table (
    id uuid, url text, description text, events text[], definitions text[], enabled boolean,
    disabled_at timestamptz, disabled_reason text, failing_since timestamptz,
    previous_secret_until timestamptz, created_by text, created_at timestamptz,
    updated_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    return query
    select w.id, w.url, w.description, w.events, w.definitions, w.enabled, w.disabled_at,
           w.disabled_reason, w.failing_since, w.previous_secret_until, w.created_by,
           w.created_at, w.updated_at
      from jobforge.webhook_endpoints as w
     where w.tenant_id = v_tenant and w.id = p_id;
    if not found then
        perform jobforge_private.refuse('JF004',
            'Webhook not found', jsonb_build_object('id', p_id));
    end if;
end $$;
