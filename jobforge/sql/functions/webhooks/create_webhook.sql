-- Applications call this to create a webhook endpoint of a tenant, which has 100 at most. The
-- caller chooses p_id, because p_secret is sealed for it; the database never receives the plain
-- secret. Settings: url; events, default {success,dead}; definitions (null: all), description,
-- enabled. Returns its ID. Raises JF001, JF002, JF005 (the ID exists, or the tenant has 100),
-- JF006, JF014.
create or replace function jobforge.create_webhook(
    p_id uuid,
    p_settings jsonb,
    p_secret bytea,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_enabled boolean;
begin
    perform jobforge_private.check_webhook(p_settings);
    perform jobforge_private.check_webhook_secret(p_secret);
    if p_id is null or not p_settings ? 'url' then
        perform jobforge_private.refuse('JF002', 'id and url are required', jsonb_build_object(
            'field', case when p_id is null then 'id' else 'url' end));
    end if;
    -- One at a time, or else two calls could both create the hundredth endpoint.
    perform jobforge_private.acquire_lock('webhooks', v_tenant);
    if (select count(*) from jobforge.webhook_endpoints as w where w.tenant_id = v_tenant) >= 100
    then
        perform jobforge_private.refuse('JF005', 'The tenant has reached the limit of 100 webhooks',
            '{"limit": 100}');
    end if;
    v_enabled := coalesce((p_settings ->> 'enabled')::boolean, true);
    insert into jobforge.webhook_endpoints (
           tenant_id, id, created_at, updated_at, disabled_at, enabled, url, description,
           disabled_reason, created_by, secret, events, definitions)
    values (v_tenant, p_id, v_now, v_now, case when not v_enabled then v_now end, v_enabled,
            p_settings ->> 'url', p_settings ->> 'description',
            case when not v_enabled then 'disabled manually' end,
            jobforge_private.actor(), p_secret,
            array(select jsonb_array_elements_text(
                coalesce(p_settings -> 'events', '["success", "dead"]'))),
            case when jsonb_typeof(p_settings -> 'definitions') = 'array'
                 then array(select jsonb_array_elements_text(p_settings -> 'definitions')) end)
    on conflict do nothing;
    if not found then
        perform jobforge_private.refuse('JF005',
            'A webhook with this ID already exists', '{"field": "id"}');
    end if;
    perform jobforge_private.audit(v_tenant, 'webhook.create', p_id::text, p_settings);
    return p_id;
end $$;
