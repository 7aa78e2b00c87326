-- Applications call this to let the tenant's current triggers act on an event again: creates a new
-- set of deliveries, numbered from 1, and new jobs, regardless of earlier ones. Returns the number.
-- Audited. Replays of one event wait for each other. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.replay_event(p_id uuid, p_tenant_id uuid default null)
returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_event record;
    v_replay integer;
begin
    select e.created_at, e.name into v_event
      from jobforge.events as e
     where e.tenant_id = v_tenant and e.id = p_id;
    if not found then
        perform jobforge_private.refuse('JF004', 'Event not found', jsonb_build_object('id', p_id));
    end if;
    perform jobforge_private.acquire_lock('replay ' || (hashtextextended(p_id::text, 0) & 15),
        v_tenant);
    select 1 + coalesce(max(r.replay), 0) into v_replay
      from (select d.replay from jobforge.event_deliveries as d
             where d.tenant_id = v_tenant and d.event_id = p_id
               and d.event_at = v_event.created_at
            union all
            select o.replay from jobforge.outbox as o
             where o.tenant_id = v_tenant and o.event_id = p_id) as r;
    perform jobforge_private.add_to_outbox(v_tenant, jobforge_private.uuid7(), p_id,
        v_event.created_at, v_replay);
    perform jobforge_private.audit(v_tenant, 'event.replay', p_id::text,
        jsonb_build_object('name', v_event.name, 'replay', v_replay));
    return v_replay;
end $$;
