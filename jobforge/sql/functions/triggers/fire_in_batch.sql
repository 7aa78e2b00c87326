-- Records firings of one tenant and enqueues their jobs in one insert; returns how many. Skips a
-- firing that was recorded before, unless it was pending. Called by fire_schedules. Raises JF008,
-- JF009, JF010.
create or replace function jobforge_private.fire_in_batch(p_tenant_id uuid, p_firings jsonb)
returns integer
language plpgsql
as $$
declare
    v_first uuid := jobforge_private.uuid7();
    v_now timestamptz := jobforge_private.now();
    v_skip integer[];
begin
    with given as materialized (
        select (e.firing ->> 'trigger_id')::uuid as trigger_id,
               (e.firing ->> 'fire_at')::timestamptz as fire_at,
               e.firing ->> 'kind' as kind, e.place
          from jsonb_array_elements(p_firings) with ordinality as e(firing, place)
    ), recorded as (
        insert into jobforge.firings as f (
               tenant_id, trigger_id, fire_at, at, job_id, kind, outcome)
        -- A requested time may also be due.
        select distinct on (g.trigger_id, g.fire_at)
               p_tenant_id, g.trigger_id, g.fire_at, v_now,
               jobforge_private.nth_id(v_first, g.place), g.kind, 'enqueued'
          from given as g
         order by g.trigger_id, g.fire_at, g.place
        on conflict on constraint firings_happen_once do update
           set at = v_now, job_id = excluded.job_id, outcome = 'enqueued'
         where f.outcome = 'pending'
        returning f.job_id
    )
    select coalesce(array_agg(g.place::integer), '{}') into v_skip
      from given as g
     where jobforge_private.nth_id(v_first, g.place) not in (select r.job_id from recorded as r);
    perform jobforge_private.insert_jobs(
        p_tenant_id,
        (select jsonb_agg(jobforge_private.firing_job(e.firing) order by e.place)
           from jsonb_array_elements(p_firings) with ordinality as e(firing, place)),
        v_first, v_skip);
    return jsonb_array_length(p_firings) - cardinality(v_skip);
end $$;
