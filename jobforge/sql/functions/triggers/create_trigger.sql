-- Applications call this to create a trigger of a tenant: `schedule` or `event`. docs/sql.md lists
-- the settings; label, definition, and cron or event are required. A tenant has at most 100 of each
-- type, not counting those that code declares. The scheduler plans a schedule as soon as it reads
-- it. Returns its ID. Raises JF001, JF002, JF005 (too many), JF006, JF009, JF014.
create or replace function jobforge.create_trigger(
    p_type text,
    p_settings jsonb,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_id uuid := jobforge_private.uuid7();
begin
    perform jobforge_private.check_new_trigger(p_type, p_settings);
    -- Counted under a lock, so that concurrent calls cannot exceed the limit.
    perform jobforge_private.acquire_lock('triggers', v_tenant);
    if (select count(*) from jobforge.triggers as t
         where t.tenant_id = v_tenant and t.type = p_type and t.deleted_at is null
           and t.declared is null) >= 100 then
        perform jobforge_private.refuse('JF005',
            'The tenant has reached the limit of 100 triggers of this type',
            '{"limit": 100}');
    end if;
    perform jobforge_private.put_trigger(v_tenant, v_id, p_type, p_settings, null, v_now);
    perform jobforge_private.audit(v_tenant, 'trigger.create', v_id::text,
        jsonb_build_object('type', p_type) || (p_settings - 'payload'));
    return v_id;
end $$;
