-- Adds an event to the outbox and notifies the schedulers. NOTIFY takes a global lock at commit, so
-- it is left out if an event of the last 250 ms is still in the outbox: the schedulers were
-- notified for it and have not caught up. Called by emit_event and replay_event.
create or replace function jobforge_private.add_to_outbox(
    p_tenant_id uuid,
    p_id uuid,
    p_event_id uuid,
    p_event_at timestamptz,
    p_replay integer
) returns void
language plpgsql
as $$
declare
    -- IDs begin with their time in milliseconds, so recent ones are at the right end of the index.
    v_recent text := lpad(to_hex(
        floor(extract(epoch from clock_timestamp()) * 1000)::bigint - 250), 12, '0');
begin
    if not exists (
           select from jobforge.outbox as o
            where o.id > (v_recent || '00000000000000000000')::uuid)
    then
        perform jobforge_private.wake_scheduler();
    end if;
    insert into jobforge.outbox (tenant_id, id, event_id, event_at, replay)
    values (p_tenant_id, p_id, p_event_id, p_event_at, p_replay);
end $$;
