-- Servers and operators call this when metrics are read: returns the state of the installation as
-- numbers, without reading every job. Jobs are counted as far as queue_depths counts, dead ones up
-- to 100,000, queued ones by tenant as queued_by_tenant does. `subject` is a queue, tenant, table
-- or maintenance task, depending on the gauge; `state` of maintenance_held is the process that has
-- always run the task for as many seconds as the value says. Only reads, takes no locks. Raises
-- JF002, and JF006 for a caller with a tenant.
create or replace function jobforge.read_gauges(p_tenants integer default 20)
returns table (gauge text, subject text, state text, value double precision)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge_private.now();
begin
    perform jobforge_private.check_limit(p_tenants, 1000);
    perform jobforge_private.require_no_tenant();
    return query
    with depths as materialized (
        select d.name, sum(d.queued) as queued, sum(d.running) as running,
               sum(d.scheduled) as scheduled, min(d.oldest_queued_at) as oldest_queued_at
          from jobforge_private.queue_depths() as d
         group by d.name
    )
    select 'jobs', d.name, s.state, s.jobs::float8
      from depths as d
     cross join lateral (values ('queued', d.queued), ('running', d.running),
                                ('scheduled', d.scheduled)) as s(state, jobs)
    union all
    select 'oldest_wait', d.name, null,
           greatest(0, extract(epoch from v_now - d.oldest_queued_at))::float8
      from depths as d
     where d.oldest_queued_at is not null
    union all
    select 'tenant_queued', t.tenant, null, t.jobs::float8
      from jobforge_private.queued_by_tenant(p_tenants) as t
    union all
    select 'dead', null, null, count(*)::float8
      from (select from jobforge.jobs as j where j.finished_at is not null limit 100000) as d
    union all
    select 'expired_leases', null, null, count(*)::float8
      from (select from jobforge.jobs as j
             where j.state = 'running' and j.lease_expires_at < v_now
               and not exists (
                   select from jobforge.heartbeats as h
                    where h.tenant_id = j.tenant_id and h.job_id = j.id and h.lease = j.lease
                      and h.expires_at >= v_now)
             limit 100000) as e
    union all
    select 'workers', null, s.state, count(w.id)::float8
      from unnest('{live,draining,stopping,stale}'::text[]) as s(state)
      left join jobforge.list_workers() as w on w.state = s.state
     group by s.state
    union all
    select 'slots', null, null, coalesce(sum(w.slots), 0)::float8
      from jobforge.list_workers() as w where w.state = 'live'
    union all
    select 'schedule_lag', null, null,
           coalesce(greatest(0, extract(epoch from v_now - min(t.due_at))), 0)::float8
      from jobforge.triggers as t where t.due_at is not null
    union all
    select 'maintenance_age', m.task, null,
           greatest(0, extract(epoch from v_now - m.started_at))::float8
      from jobforge.maintenance as m
    union all
    select 'maintenance_held', m.task, m.started_by,
           greatest(0, extract(epoch from v_now - m.since))::float8
      from jobforge.maintenance as m
    union all
    select 'faulty_triggers', null, null, count(*)::float8
      from jobforge.triggers as t where t.fault is not null and t.deleted_at is null
    union all
    select 'pending_events', null, null, count(*)::float8
      from (select from jobforge.outbox as o limit 100000) as p
    union all
    select 'event_lag', null, null,
           coalesce(greatest(0, extract(epoch from v_now - (
               select o.event_at from jobforge.outbox as o order by o.id limit 1))), 0)::float8
    union all
    select 'open_operations', null, null, count(*)::float8
      from jobforge.operations as o where o.finished_at is null
    union all
    select 'disabled_webhooks', null, null, count(*)::float8
      from jobforge.webhook_endpoints as w
     where not w.enabled and w.disabled_reason <> 'disabled manually'
    union all
    select m.gauge, m.table_name, null, m.value from jobforge_private.measure_tables() as m;
end $$;
