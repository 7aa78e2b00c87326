-- Applications call this to give a webhook endpoint a new secret, sealed by the caller. The former
-- secret also signs for p_overlap_s, 30 days at most; an older one ends now. Locks the endpoint.
-- Raises JF001, JF002, JF004, JF006, JF014.
create or replace function jobforge.rotate_webhook(
    p_id uuid,
    p_secret bytea,
    p_overlap_s double precision default 86400,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz;
begin
    perform jobforge_private.check_webhook_secret(p_secret);
    if p_overlap_s is null or not p_overlap_s between 0 and 2592000 then
        perform jobforge_private.refuse('JF002', 'overlap_s must be at most 30 days',
            '{"field": "overlap_s"}');
    end if;
    perform jobforge_private.lock_webhook(v_tenant, p_id);
    v_now := jobforge_private.now();
    update jobforge.webhook_endpoints as w
       set secret = p_secret,
           previous_secret = case when p_overlap_s > 0 then w.secret end,
           previous_secret_until = case when p_overlap_s > 0
                                        then v_now + make_interval(secs => p_overlap_s) end,
           updated_at = v_now
     where w.tenant_id = v_tenant and w.id = p_id;
    perform jobforge_private.audit(v_tenant, 'webhook.rotate', p_id::text,
        jsonb_build_object('overlap_s', p_overlap_s));
end $$;
