-- Applications call this to change a webhook endpoint: url, events, definitions, description,
-- enabled; omitted settings are unchanged. Enabling an endpoint resets the reason for which it was
-- disabled and its failures. p_secret, sealed by the caller, replaces the secret and ends a
-- rotation. A URL with another origin requires p_secret: otherwise anyone who may edit the endpoint
-- could collect signatures that the former receiver accepts. Locks the endpoint. Raises JF001,
-- JF002, JF004, JF006, JF014, JF015 (the secret is missing).
create or replace function jobforge.edit_webhook(
    p_id uuid,
    p_changes jsonb,
    p_secret bytea default null,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_endpoint jobforge.webhook_endpoints;
    v_enabled boolean;
    v_is_switched boolean;
    v_now timestamptz;
begin
    perform jobforge_private.check_webhook(p_changes);
    if p_secret is not null then
        perform jobforge_private.check_webhook_secret(p_secret);
    end if;
    v_endpoint := jobforge_private.lock_webhook(v_tenant, p_id);
    if p_secret is null and p_changes ? 'url'
       and jobforge_private.url_origin(p_changes ->> 'url')
           <> jobforge_private.url_origin(v_endpoint.url) then
        perform jobforge_private.refuse('JF015',
            'The URL has another origin, so the secret is required again',
            '{"field": "secret", "missing": ["secret"]}',
            'Send the secret that signs its messages, or create another webhook');
    end if;
    v_now := jobforge_private.now();
    v_enabled := coalesce((p_changes ->> 'enabled')::boolean, v_endpoint.enabled);
    v_is_switched := v_enabled <> v_endpoint.enabled;
    update jobforge.webhook_endpoints as w
       set url = coalesce(p_changes ->> 'url', w.url),
           events = case when p_changes ? 'events'
                         then array(select jsonb_array_elements_text(p_changes -> 'events'))
                         else w.events end,
           definitions = case
               when not p_changes ? 'definitions' then w.definitions
               when jsonb_typeof(p_changes -> 'definitions') = 'array'
               then array(select jsonb_array_elements_text(p_changes -> 'definitions')) end,
           description = case when p_changes ? 'description' then p_changes ->> 'description'
                              else w.description end,
           enabled = v_enabled,
           disabled_at = case when not v_is_switched then w.disabled_at
                              when not v_enabled then v_now end,
           disabled_reason = case when not v_is_switched then w.disabled_reason
                                  when not v_enabled then 'disabled manually' end,
           failing_since = case when v_is_switched and v_enabled then null
                                else w.failing_since end,
           secret = coalesce(p_secret, w.secret),
           previous_secret = case when p_secret is null then w.previous_secret end,
           previous_secret_until = case when p_secret is null then w.previous_secret_until end,
           updated_at = v_now
     where w.tenant_id = v_tenant and w.id = p_id;
    perform jobforge_private.audit(v_tenant, 'webhook.edit', p_id::text, p_changes);
end $$;
