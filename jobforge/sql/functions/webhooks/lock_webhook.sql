-- Returns a webhook endpoint of a tenant and locks it. Called by the functions that change
-- endpoints. Raises JF004.
create or replace function jobforge_private.lock_webhook(p_tenant_id uuid, p_id uuid)
returns jobforge.webhook_endpoints
language plpgsql
as $$
declare
    v_endpoint jobforge.webhook_endpoints;
begin
    select w.* into v_endpoint from jobforge.webhook_endpoints as w
     where w.tenant_id = p_tenant_id and w.id = p_id
       for update;
    if not found then
        perform jobforge_private.refuse('JF004',
            'Webhook not found', jsonb_build_object('id', p_id));
    end if;
    return v_endpoint;
end $$;
