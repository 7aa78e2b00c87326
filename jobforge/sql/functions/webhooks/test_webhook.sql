-- Applications call this to send a test message to a webhook endpoint, once, also if it is
-- disabled. The result is in its deliveries and changes nothing else. Returns the ID of the
-- delivery. Locks the endpoint. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.test_webhook(p_id uuid, p_tenant_id uuid default null)
returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_endpoint jobforge.webhook_endpoints := jobforge_private.lock_webhook(v_tenant, p_id);
    v_id uuid;
begin
    v_id := jobforge_private.send_messages(v_tenant, array[row(
        v_tenant, p_id, null, 'webhook.test', null, null, jsonb_build_object(
            'type', 'webhook.test', 'timestamp', jobforge_private.utc_text(jobforge_private.now()),
            'data', jsonb_build_object(
                'endpoint_id', p_id, 'tenant_id', v_tenant, 'sent_by', jobforge_private.actor())
        ))::jobforge.webhook_message], '{"max_attempts": 1}');
    perform jobforge_private.audit(v_tenant, 'webhook.test', p_id::text,
        jsonb_build_object('url', v_endpoint.url));
    return v_id;
end $$;
