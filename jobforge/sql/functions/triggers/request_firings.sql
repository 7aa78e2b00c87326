-- Stores requested firings of a schedule, which the scheduler processes, and returns how many are
-- new. Locks the trigger. Called by run_trigger and backfill_trigger. Raises JF004, JF005 (not a
-- schedule).
create or replace function jobforge_private.request_firings(
    p_tenant_id uuid,
    p_id uuid,
    p_kind text,
    p_times timestamptz[]
) returns integer
language plpgsql
as $$
declare
    t jobforge.triggers := jobforge_private.lock_trigger(p_tenant_id, p_id);
    v_requested integer;
begin
    if t.type <> 'schedule' then
        perform jobforge_private.refuse('JF005',
            'Only schedules fire by time; to process an event again, replay it',
            jsonb_build_object('id', p_id, 'type', t.type));
    end if;
    insert into jobforge.firings (
           tenant_id, trigger_id, fire_at, at, kind, outcome, created_by)
    select p_tenant_id, p_id, w.at, jobforge_private.now(), p_kind, 'pending',
           jobforge_private.actor()
      from unnest(p_times) as w(at)
    on conflict on constraint firings_happen_once do nothing;
    get diagnostics v_requested = row_count;
    perform jobforge_private.wake_scheduler();
    return v_requested;
end $$;
