-- Applications call this inside their transaction: the event exists if it commits. Triggers act on
-- it later, so nothing that they do can fail the caller. p_data is an object. p_options may have
-- correlation_id (default: the event's ID) and traceparent, which the jobs inherit, and key: each
-- trigger creates one job for all events with the same name and key. Returns the event's ID. Takes
-- no locks. Raises JF001, JF002, JF006, JF007, JF014.
create or replace function jobforge.emit_event(
    p_name text,
    p_data jsonb default '{}',
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_id uuid := jobforge_private.uuid7();
begin
    perform jobforge_private.check_event(p_name, p_data, p_options);
    insert into jobforge.events (
           tenant_id, id, created_at, name, correlation_id, key, traceparent, created_by, data)
    values (v_tenant, v_id, v_now, p_name, coalesce(p_options ->> 'correlation_id', v_id::text),
            p_options ->> 'key', p_options ->> 'traceparent', jobforge_private.actor(), p_data);
    perform jobforge_private.add_to_outbox(v_tenant, v_id, v_id, v_now, 0);
    return v_id;
end $$;
