-- Applications call this to request one firing of a schedule now, enabled or not, regardless of its
-- overlap policy. The scheduler processes it; until then it is pending in list_firings. Returns its
-- fire_at. Locks the trigger. Raises JF001, JF004, JF005 (an event trigger), JF006, JF014.
create or replace function jobforge.run_trigger(p_id uuid, p_tenant_id uuid default null)
returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
begin
    perform jobforge_private.request_firings(v_tenant, p_id, 'manual', array[v_now]);
    perform jobforge_private.audit(v_tenant, 'trigger.run', p_id::text);
    return v_now;
end $$;
