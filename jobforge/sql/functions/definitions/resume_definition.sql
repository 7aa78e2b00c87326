-- Operators call this to resume a paused definition. Notifies the workers. Locks the registration
-- of the key. Raises JF004.
create or replace function jobforge.resume_definition(p_key text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Waits for a version that is being registered, so that it is included.
    perform jobforge_private.acquire_lock('registration ' || p_key);
    update jobforge.definitions as p
       set paused_at = null, updated_at = jobforge_private.now()
     where p.key = p_key;
    if not found then
        perform jobforge_private.refuse('JF004', format('Definition ''%s'' not found', p_key),
            jsonb_build_object('key', p_key));
    end if;
    perform jobforge_private.wake_workers();
    perform jobforge_private.audit(null, 'definition.resume', p_key::text);
end $$;
