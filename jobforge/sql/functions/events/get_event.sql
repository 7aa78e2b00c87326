-- Returns one event of a tenant, whether it is still to be dispatched, and its deliveries so far:
-- an array of {id, event_id, trigger_id, label, outcome, reason, job_id, replay, at}, oldest first.
-- Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.get_event(p_id uuid, p_tenant_id uuid default null)
returns table (
    id uuid, name text, correlation_id text, key text, traceparent text, created_by text,
    created_at timestamptz, is_pending boolean, data jsonb, deliveries jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    return query
    select e.id, e.name, e.correlation_id, e.key, e.traceparent, e.created_by, e.created_at,
           exists (select from jobforge.outbox as o
                    where o.tenant_id = v_tenant and o.event_id = p_id),
           jobforge_private.readable(e.data),
           coalesce((select jsonb_agg(jsonb_build_object(
                                'id', d.id, 'event_id', d.event_id, 'trigger_id', d.trigger_id,
                                'label', t.label, 'outcome', d.outcome, 'reason', d.reason,
                                'job_id', d.job_id, 'replay', d.replay, 'at', d.at) order by d.id)
                       from jobforge.event_deliveries as d
                       left join jobforge.triggers as t
                         on t.tenant_id = d.tenant_id and t.id = d.trigger_id
                      where d.tenant_id = v_tenant and d.event_id = p_id
                        and d.event_at = e.created_at), '[]')
      from jobforge.events as e
     where e.tenant_id = v_tenant and e.id = p_id;
    if not found then
        perform jobforge_private.refuse('JF004', 'Event not found', jsonb_build_object('id', p_id));
    end if;
end $$;
