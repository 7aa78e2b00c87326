-- Operators pause a definition. Its jobs stay queued from now on and let others pass. Raises
-- JF004.
create or replace function jobforge.pause_definition(p_key text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A version that is being registered is to be among them.
    perform jobforge_private.acquire_lock('registration ' || p_key);
    update jobforge.definitions as p
       set paused_at = coalesce(p.paused_at, jobforge_private.now()),
           updated_at = jobforge_private.now()
     where p.key = p_key;
    if not found then
        perform jobforge_private.refuse('JF004', format('no definition %s', p_key),
            jsonb_build_object('key', p_key));
    end if;
    perform jobforge_private.audit(null, 'definition.pause', p_key::text);
end $$;
