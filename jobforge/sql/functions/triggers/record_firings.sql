-- Schedulers call this with their plans for the schedules of due_schedules. Each element of
-- p_plans: tenant_id, id, due_at and updated_at as they were read, next_run_at, fault (disables the
-- schedule), and firings, each with fire_at, kind, run_at and payload, or with outcome and reason
-- if it creates no job. Skips a schedule that has changed or fired since, and a firing that was
-- recorded before: the primary key of firings decides, not the caller. With app.tenant_id set, only
-- that tenant's. Stores jobs, firings and the next time together. Returns how many firings were
-- recorded, or null while another scheduler is doing this. Locks triggers in order, then jobs that
-- an overlap policy cancels. Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.record_firings(p_plans jsonb) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_own uuid := jobforge.tenant();
    v_tenant record;
    v_recorded integer := 0;
begin
    perform jobforge_private.require_read_committed('record_firings');
    perform jobforge_private.check_bounded('plans', p_plans, null);
    if jsonb_typeof(p_plans) is distinct from 'array' or jsonb_array_length(p_plans) > 5000 then
        perform jobforge_private.refuse('JF002',
            'plans must be a JSON array of at most 5000 objects', '{"field": "plans"}');
    elsif not jobforge_private.try_lock('scheduler') then
        return null;
    end if;
    for v_tenant in
        with given as materialized (
            select p.*
              from jsonb_to_recordset(p_plans) as p(
                   tenant_id uuid, id uuid, due_at timestamptz, updated_at timestamptz,
                   next_run_at timestamptz, fault text, firings jsonb)
             where (v_own is null or p.tenant_id = v_own)
               and not jobforge_private.is_erased(p.tenant_id)
             order by p.tenant_id, p.id
        ), locked as materialized (
            select t.*, g.next_run_at as planned_at, g.fault as found_fault, g.firings
              from given as g
             cross join lateral (
                select r.tenant_id, r.id, r.definition, r.version, r.queue, r.priority, r.overlap
                  from jobforge.triggers as r
                 where r.tenant_id = g.tenant_id and r.id = g.id
                   and r.updated_at = g.updated_at and r.due_at is not distinct from g.due_at
                   and r.deleted_at is null
                   for update) as t
        ), planned as (
            update jobforge.triggers as t
               set next_run_at = case when l.found_fault is null then l.planned_at end,
                   due_at = case when l.found_fault is null then l.planned_at end,
                   enabled = t.enabled and l.found_fault is null,
                   fault = coalesce(l.found_fault, t.fault)
              from locked as l
             where t.tenant_id = l.tenant_id and t.id = l.id
        )
        select l.tenant_id as id,
               jsonb_agg(f.firing || jsonb_build_object(
                   'trigger_id', l.id, 'definition', l.definition, 'version', l.version,
                   'queue', l.queue, 'priority', l.priority, 'overlap', l.overlap)
                   order by l.id, f.place) filter (where f.firing is not null) as firings
          from locked as l
          left join lateral jsonb_array_elements(l.firings) with ordinality as f(firing, place)
            on true
         group by l.tenant_id
         order by l.tenant_id
    loop
        continue when v_tenant.firings is null;
        v_recorded := v_recorded + jobforge_private.fire_schedules(v_tenant.id, v_tenant.firings);
        update jobforge.triggers as t
           set last_fired_at = (select f.fire_at from jobforge.firings as f
                                 where f.tenant_id = t.tenant_id and f.trigger_id = t.id
                                   and f.outcome = 'enqueued' and f.kind <> 'backfill'
                                 order by f.fire_at desc limit 1)
         where t.tenant_id = v_tenant.id
           and t.id in (select (e.firing ->> 'trigger_id')::uuid
                          from jsonb_array_elements(v_tenant.firings) as e(firing));
    end loop;
    return v_recorded;
exception
    when data_exception or integrity_constraint_violation then
        perform jobforge_private.refuse('JF002', 'Invalid plans: ' || sqlerrm,
            '{"field": "plans"}');
        return null;
end $$;
