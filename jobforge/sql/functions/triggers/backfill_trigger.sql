-- Applications call this to request firings of a schedule at given times in the past, 1,000 at
-- most. Skips times that already have a firing, whatever its outcome, so it is safe to repeat. The
-- scheduler processes them regardless of the overlap policy. Returns how many were requested. Locks
-- the trigger. Raises JF001, JF002, JF004, JF005 (an event trigger), JF006, JF014.
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
    v_requested integer;
begin
    if p_times is null or cardinality(p_times) > 1000 or array_position(p_times, null) is not null
       or exists (select from unnest(p_times) as w(at)
                   where w.at > jobforge_private.now() or w.at < '1970-01-01T00:00Z') then
        perform jobforge_private.refuse('JF002',
            'times must be a list of at most 1000 times in the past',
            '{"field": "times"}');
    end if;
    v_requested := jobforge_private.request_firings(v_tenant, p_id, 'backfill', p_times);
    perform jobforge_private.audit(v_tenant, 'trigger.backfill', p_id::text, jsonb_build_object(
        'firings', v_requested, 'first', (select min(w.at) from unnest(p_times) as w(at)),
        'last', (select max(w.at) from unnest(p_times) as w(at))));
    return v_requested;
end $$;
