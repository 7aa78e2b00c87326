-- Returns the triggers that events name, each once, and the parameters of their definitions. Called
-- by pending_events.
create or replace function jobforge_private.describe_triggers(p_events jsonb) returns jsonb
language sql stable
as $$
    with named as materialized (
        select distinct (e.event ->> 'tenant_id')::uuid as tenant_id, n.id::uuid as id
          from jsonb_array_elements(p_events) as e(event)
         cross join lateral jsonb_array_elements_text(e.event -> 'triggers') as n(id)
    ), wanted as materialized (
        select t.id, t.definition, t.version, t.queue, t.priority,
               jobforge_private.readable(t.payload) as payload,
               jobforge_private.readable(t.filter) as filter, t.dedupe_window_s, t.dedupe_key
          from named as n
          join jobforge.triggers as t on t.tenant_id = n.tenant_id and t.id = n.id
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
