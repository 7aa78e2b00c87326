-- Schedulers call this for up to p_limit events of the outbox, and record_deliveries with their
-- decisions. Returns the events after the position p_after, or a share of each tenant's events;
-- with app.tenant_id set, only that tenant's. The result has
--   events       with the triggers whose pattern matches their name; data only if there is one
--   triggers     each of those triggers once
--   definitions  the parameters of their definitions
-- Other schedulers skip these events for five seconds. That only saves work: the caller that
-- removes an event from the outbox dispatches it. Also resumes jobs whose event was emitted before
-- they began to wait for it. Locks outbox rows and jobs that no other transaction has locked.
-- Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.pending_events(
    p_limit integer default 500,
    p_after uuid default null
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_places uuid[];
    v_events jsonb;
begin
    perform jobforge_private.require_read_committed('pending_events');
    perform jobforge_private.check_limit(p_limit, 5000);
    perform jobforge_private.resume_by_past_events(jobforge.tenant());
    v_places := jobforge_private.lock_outbox_rows(p_limit, p_after, jobforge.tenant());
    with joined as materialized (
        -- The event is missing if its partition was dropped. No trigger gets data that cannot be
        -- returned.
        select p.tenant_id, p.id, p.event_id, p.event_at, p.replay, e.name, e.correlation_id, e.key,
               e.traceparent, e.data,
               array(select t.id
                       from jobforge.triggers as t
                      where t.tenant_id = p.tenant_id and t.type = 'event' and t.enabled
                        and t.deleted_at is null and jobforge_private.matches_event(t.event, e.name)
                   and jobforge_private.is_bounded(e.data)
                      order by t.id) as triggers
          from jobforge.outbox as p
          left join jobforge.events as e
            on e.tenant_id = p.tenant_id and e.id = p.event_id and e.created_at = p.event_at
         where p.id = any (v_places)
    ), measured as materialized (
        -- Bounded, so that the scheduler can process all within the five seconds.
        select j.*,
               sum(case when j.triggers <> '{}' then pg_column_size(j.data) end) over w as bytes,
               sum(cardinality(j.triggers)) over w as pairs
          from joined as j
        window w as (order by j.id rows between unbounded preceding and 1 preceding)
    ), reserved as (
        update jobforge.outbox as o
           set reserved_until = jobforge_private.now() + interval '5 seconds'
          from measured as m
         where o.id = m.id and coalesce(m.bytes, 0) < 8388608 and coalesce(m.pairs, 0) < 2000
        returning m.*
    )
    select jsonb_agg(jsonb_build_object(
               'id', r.id, 'tenant_id', r.tenant_id, 'event_id', r.event_id, 'name', r.name,
               'created_at', r.event_at, 'correlation_id', r.correlation_id, 'key', r.key,
               'traceparent', r.traceparent, 'replay', r.replay, 'triggers', r.triggers,
               'data', case when r.triggers <> '{}' then r.data end) order by r.id)
      into v_events
      from reserved as r;
    if v_events is null or not jsonb_path_exists(v_events, '$[*].triggers[*]') then
        return jsonb_build_object('events', coalesce(v_events, '[]'), 'triggers', '[]'::jsonb,
                                  'definitions', '[]'::jsonb);
    end if;
    return jsonb_build_object('events', v_events) || jobforge_private.describe_triggers(v_events);
end $$;
