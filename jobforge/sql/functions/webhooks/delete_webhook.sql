-- Applications call this to delete a webhook endpoint. Waiting messages are not sent any more; sent
-- ones stay as long as the history. Locks the endpoint. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.delete_webhook(p_id uuid, p_tenant_id uuid default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_endpoint jobforge.webhook_endpoints := jobforge_private.lock_webhook(v_tenant, p_id);
begin
    delete from jobforge.webhook_endpoints as w where w.tenant_id = v_tenant and w.id = p_id;
    perform jobforge_private.audit(v_tenant, 'webhook.delete', p_id::text,
        jsonb_build_object('url', v_endpoint.url));
end $$;
