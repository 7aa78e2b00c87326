-- Workers call this after an attempt to send a message. p_attempt: status, response, and an error
-- unless it was delivered. A status of 410 disables the endpoint immediately, and so do five days
-- of only failures; both are audited. A test message has no such effect. Returns whether the
-- endpoint is enabled. Locks the endpoint if it changes. Raises JF001, JF002, JF006, JF014.
create or replace function jobforge.record_delivery(
    p_id uuid,
    p_delivery_id uuid,
    p_attempt jsonb,
    p_tenant_id uuid default null
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_status integer;
    v_error text;
    v_is_test boolean;
    v_endpoint jobforge.webhook_endpoints;
    v_reason text;
begin
    perform jobforge_private.check_bounded('attempt', p_attempt);
    if jsonb_typeof(p_attempt) is distinct from 'object'
       or coalesce(p_attempt ->> 'status', '200') !~ '^\d{3}$' then
        perform jobforge_private.refuse('JF002',
            'attempt must be an object with a three-digit status', '{"field": "attempt"}');
    end if;
    v_status := p_attempt ->> 'status';
    v_error := left(p_attempt ->> 'error', 1000);
    update jobforge.webhook_deliveries as d
       set attempts = d.attempts + 1, attempted_at = v_now, status = v_status, error = v_error,
           response = left(p_attempt ->> 'response', 4096),
           delivered_at = case when v_error is null then v_now end
     where d.tenant_id = v_tenant and d.endpoint_id = p_id and d.id = p_delivery_id
    returning d.subject_id is null into v_is_test;
    select w.* into v_endpoint from jobforge.webhook_endpoints as w
     where w.tenant_id = v_tenant and w.id = p_id;
    -- Most calls change nothing and take no lock.
    if v_is_test is distinct from false or v_endpoint.id is null
       or v_error is null and v_endpoint.failing_since is null
       or v_error is not null and not v_endpoint.enabled then
        return coalesce(v_endpoint.enabled, false);
    end if;
    if v_error is not null then
        v_reason := case
            when v_status = 410 then 'the receiver returned 410 Gone'
            when v_endpoint.failing_since <= v_now - interval '5 days' then
                format('all deliveries failed since %s; last error: %s',
                       jobforge_private.utc_text(v_endpoint.failing_since), v_error) end;
        if v_reason is null and v_endpoint.failing_since is not null then
            return true;
        end if;
    end if;
    update jobforge.webhook_endpoints as w
       set failing_since = case when v_error is not null then coalesce(w.failing_since, v_now) end,
           enabled = w.enabled and v_reason is null,
           disabled_at = case when v_reason is null then w.disabled_at else v_now end,
           disabled_reason = coalesce(v_reason, w.disabled_reason),
           updated_at = case when v_reason is null then w.updated_at else v_now end
     where w.tenant_id = v_tenant and w.id = p_id
       -- Another call may have disabled the endpoint in the meantime.
       and (w.enabled or v_reason is null);
    if found and v_reason is not null then
        perform jobforge_private.audit(v_tenant, 'webhook.disable', p_id::text,
            jsonb_build_object('reason', v_reason, 'delivery_id', p_delivery_id));
    end if;
    return v_endpoint.enabled and v_reason is null;
end $$;
