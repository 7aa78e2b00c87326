-- Asks for the firings of a schedule at given times, as they would have been: at most 1,000 times,
-- all in the past. A time that has a firing already, however it went, is left alone, so asking
-- again does nothing. The scheduler makes them, whatever the overlap policy says. Answers how many
-- were asked for. Raises JF001, JF002, JF004, JF005 (a trigger by event), JF006. Locks the trigger.
create or replace function jobforge.backfill_trigger(
    p_id uuid,
    p_times timestamptz[],
    p_tenant_id uuid default null
) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_asked integer;
begin
    if p_times is null or cardinality(p_times) > 1000 or array_position(p_times, null) is not null
       or exists (select from unnest(p_times) as w(at)
                   where w.at > jobforge_private.now() or w.at < '1970-01-01T00:00Z') then
        perform jobforge_private.refuse('JF002', 'times must be at most 1000 times in the past',
            '{"field": "times"}');
    end if;
    v_asked := jobforge_private.request_firings(v_tenant, p_id, 'backfill', p_times);
    perform jobforge_private.audit(v_tenant, 'trigger.backfill', p_id::text, jsonb_build_object(
        'firings', v_asked, 'first', (select min(w.at) from unnest(p_times) as w(at)),
        'last', (select max(w.at) from unnest(p_times) as w(at))));
    return v_asked;
end $$;
