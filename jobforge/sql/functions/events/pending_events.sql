-- Schedulers call this, and then record_deliveries with the results. Returns up to p_limit events
-- of the outbox: those after position p_after, or a share of each tenant's; with app.tenant_id set,
-- of that tenant only. The document has
--   events       with the triggers whose pattern matches the name; data only if there is a trigger
--   triggers     each of those triggers once
--   definitions  the parameters of those triggers' definitions
-- A document has about 8 MiB of text, and the jobs to be created from it about 64 MiB: the next
-- call returns the rest. One event comes with at most 12 MiB of its triggers' payloads and filters
-- (describe_triggers). Other schedulers skip these events for five seconds. This only saves work:
-- an event is dispatched by the caller that removes it from the outbox. Also resumes jobs whose
-- event was emitted before they began to wait for it. Locks outbox rows and jobs that are not
-- locked. Raises JF002, and JF012 outside READ COMMITTED.
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
    v_event record;
    v_bytes bigint := 0;  -- of text in the answer
    v_made bigint := 0;  -- of text in the jobs, at most: each can have the data of its event
    v_sizes record;
    v_longest bigint := 0;  -- of the payloads of these triggers
    v_pairs integer := 0;
    v_triggers uuid[] := '{}';  -- counted in v_bytes
    v_ids uuid[] := '{}';
    v_events jsonb[] := '{}';
    v_answer jsonb;
begin
    perform jobforge_private.require_read_committed('pending_events');
    perform jobforge_private.check_limit(p_limit, 5000);
    perform jobforge_private.resume_by_past_events(jobforge.tenant());
    v_places := jobforge_private.lock_outbox_rows(p_limit, p_after, jobforge.tenant());
    for v_event in
        -- Retention may have dropped the event's day before a scheduler read the outbox row.
        select p.tenant_id, p.id, p.event_id, p.event_at, p.replay, e.name, e.correlation_id, e.key,
               e.traceparent, e.data, 0 as bytes,
               array(select t.id
                       from jobforge.triggers as t
                      where t.tenant_id = p.tenant_id and t.type = 'event' and t.enabled
                        and t.deleted_at is null and jobforge_private.matches_event(t.event, e.name)
                      order by t.id) as triggers
          from jobforge.outbox as p
          left join jobforge.events as e
            on e.tenant_id = p.tenant_id and e.id = p.event_id and e.created_at = p.event_at
         where p.id = any (v_places)
         -- Round robin over tenants, so that large events of one tenant do not fill the document.
         order by case when p_after is null
                       then row_number() over (partition by p.tenant_id order by p.id) end, p.id
    loop
        -- Data that cannot be returned is given to no trigger.
        if v_event.triggers <> '{}' and jobforge_private.is_bounded(v_event.data) is not true then
            v_event.triggers := '{}';
        elsif v_event.triggers <> '{}' then
            if not v_event.triggers <@ v_triggers then
                select sum(s.payload + s.filter) as bytes, max(s.payload) as longest into v_sizes
                  from (select jobforge_private.text_bytes(t.payload)::bigint as payload,
                               jobforge_private.text_bytes(t.filter) as filter
                          from jobforge.triggers as t
                         where t.tenant_id = v_event.tenant_id and t.id = any (v_event.triggers)
                           and t.id <> all (v_triggers)
                        offset 0) as s;
                v_bytes := v_bytes + v_sizes.bytes;
                v_longest := greatest(v_longest, v_sizes.longest);
            end if;
            v_event.bytes := octet_length(v_event.data::text);
            v_bytes := v_bytes + v_event.bytes;
            -- A rendered template has at most 256 KiB.
            v_made := v_made + cardinality(v_event.triggers)
                               * least(v_event.bytes + v_longest, 262144);
        end if;
        -- No more than a scheduler can dispatch within the five seconds.
        exit when v_ids <> '{}'
              and (v_bytes > 8388608 or v_made > 67108864 or v_pairs >= 2000);
        v_pairs := v_pairs + cardinality(v_event.triggers);
        if not v_event.triggers <@ v_triggers then
            v_triggers := v_triggers || v_event.triggers;
        end if;
        v_ids := array_append(v_ids, v_event.id);
        v_events := array_append(v_events, jsonb_build_object(
            'id', v_event.id, 'tenant_id', v_event.tenant_id, 'event_id', v_event.event_id,
            'name', v_event.name, 'created_at', v_event.event_at,
            'correlation_id', v_event.correlation_id, 'key', v_event.key,
            'traceparent', v_event.traceparent, 'replay', v_event.replay,
            'triggers', v_event.triggers,
            'data', case when v_event.triggers <> '{}' then v_event.data end));
    end loop;
    update jobforge.outbox as o
       set reserved_until = jobforge_private.now() + interval '5 seconds'
     where o.id = any (v_ids);
    v_answer := jsonb_build_object('events', (
        select coalesce(jsonb_agg(e.event order by e.id), '[]')
          from unnest(v_ids, v_events) as e(id, event)));
    if v_pairs = 0 then
        return v_answer || '{"triggers": [], "definitions": []}';
    end if;
    return v_answer || jobforge_private.describe_triggers(v_answer -> 'events');
end $$;
