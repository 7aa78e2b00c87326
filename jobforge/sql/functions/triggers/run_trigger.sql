-- Asks for one firing of a schedule now, enabled or not, whatever its overlap policy says. The
-- scheduler makes it, as any other: list_firings shows it, pending until then. Answers its fire_at.
-- Raises JF001, JF004, JF005 (a trigger by event), JF006. Locks the trigger.
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
