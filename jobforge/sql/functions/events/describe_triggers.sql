-- Returns the triggers that events name, each once, and the parameters of their definitions. Once
-- payloads and filters exceed 12 MiB of text in total, further triggers are returned without them;
-- such a trigger fails for this event with a reason. Called by pending_events.
create or replace function jobforge_private.describe_triggers(p_events jsonb) returns jsonb
language sql stable
as $$
    with named as materialized (
        select distinct (e.event ->> 'tenant_id')::uuid as tenant_id, n.id::uuid as id
          from jsonb_array_elements(p_events) as e(event)
         cross join lateral jsonb_array_elements_text(e.event -> 'triggers') as n(id)
    ), measured as materialized (
        select t.*, sum(jobforge_private.text_bytes(t.payload)
                        + jobforge_private.text_bytes(t.filter)) over (order by t.id) as bytes
          from named as n
          join jobforge.triggers as t on t.tenant_id = n.tenant_id and t.id = n.id
    ), wanted as materialized (
        select m.id, m.definition, m.version, m.queue, m.priority,
               case when m.bytes <= 12582912 then jobforge_private.readable(m.payload)
                    else '{"$unreadable": "the triggers of the event have more than 12 MiB"}'
                    end as payload,
               case when m.bytes <= 12582912 then jobforge_private.readable(m.filter)
                    else '[]' end as filter, m.dedupe_window_s, m.dedupe_key
          from measured as m
    )
    select jsonb_build_object(
        'triggers', (select jsonb_agg(to_jsonb(w.*)) from wanted as w),
        'definitions', (
            select jsonb_agg(jsonb_build_object(
                       'key', k.definition, 'version', k.version,
                       'parameters', jobforge_private.readable(d.parameters)))
              from (select distinct w.definition, w.version from wanted as w) as k
             cross join lateral jobforge_private.find_definition(k.definition, k.version) as d))
$$;
