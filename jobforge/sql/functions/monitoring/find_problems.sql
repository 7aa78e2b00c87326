-- Servers and operators call this for problems that need attention, 20 of each kind at most, oldest
-- first:
--   unserved   jobs that no live worker serves, among the first 1,000 ready ones; detail: the queue
--   overdue    schedules that are more than two minutes late; detail: the cron expression
--   faulty     triggers that were disabled because they are invalid; detail: the fault
--   webhook    endpoints that were disabled automatically; detail: the reason
--   event      events that have waited for a minute; detail: how many wait, up to 1,000
--   operation  bulk operations that did not advance for five minutes; detail: the kind
--   blocked    jobs older than five minutes that are blocked without waiting for anything, among
--              the first 10,000 blocked ones; detail: the definition
-- Only reads. Raises JF006 for a caller with a tenant.
create or replace function jobforge.find_problems()
returns table (kind text, subject text, tenant_id uuid, since timestamptz, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge_private.now();
begin
    perform jobforge_private.require_no_tenant();
    return query
    (select 'unserved', r.definition, null::uuid, min(r.queued_at), r.queue
       from (select j.queue, j.definition || '@' || j.version as definition, j.queued_at
               from jobforge.jobs as j
              where j.state = 'queued' and j.gate is null
              order by j.queue, j.tenant_id
              limit 1000) as r
      where not exists (
            select from jobforge.workers as w
             where w.stopped_at is null and w.command is null
               and w.live_until >= v_now
               and r.queue = any (w.queues)
               and (w.definitions is null or r.definition = any (w.definitions)))
      group by r.queue, r.definition
      order by 4
      limit 20)
    union all
    (select 'overdue', t.label, t.tenant_id, t.due_at, t.cron
       from jobforge.triggers as t
      where t.due_at < v_now - interval '2 minutes'
      order by t.due_at
      limit 20)
    union all
    (select 'faulty', t.label, t.tenant_id, t.updated_at, t.fault
       from jobforge.triggers as t
      where t.fault is not null and t.deleted_at is null
      order by t.updated_at
      limit 20)
    union all
    (select 'webhook', w.id::text, w.tenant_id, w.disabled_at, w.disabled_reason
       from jobforge.webhook_endpoints as w
      where not w.enabled and w.disabled_reason <> 'disabled manually'
      order by w.disabled_at
      limit 20)
    union all
    select 'event', o.event_id::text, o.tenant_id, o.event_at,
           (select count(*)::text from (select from jobforge.outbox as n limit 1000) as n)
      from (select n.* from jobforge.outbox as n order by n.id limit 1) as o
     where o.event_at < v_now - interval '1 minute'
    union all
    (select 'operation', o.id::text, o.tenant_id, o.due_at, o.kind
       from jobforge.operations as o
      where o.finished_at is null and o.due_at < v_now - interval '5 minutes'
      order by o.due_at
      limit 20)
    union all
    (select 'blocked', b.id::text, b.tenant_id, b.created_at, b.definition
       from (select j.tenant_id, j.id, j.created_at, j.definition
               from jobforge.jobs as j
              where j.state = 'blocked'
              order by j.tenant_id, j.id
              limit 10000) as b
      where b.created_at < v_now - interval '5 minutes'
        and not exists (select from jobforge.awaited_jobs as a
                         where a.tenant_id = b.tenant_id and a.waiter_id = b.id)
      order by b.created_at
      limit 20);
end $$;
