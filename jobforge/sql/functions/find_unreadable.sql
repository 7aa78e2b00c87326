-- Operators call this to see JSON that is too long as text, and the jobs that claims ended because
-- of theirs, 20 of each kind at most: the payload or result of a live job (`job`, among the first
-- 2,000 with large ones), the settings of a trigger (`trigger`), the data of an event that waits
-- (`event`), and dead jobs whose payload was removed (`removed`). Only a superuser or a restore can
-- store such values. `detail` is the column. With app.tenant_id set it is refused. Only reads.
-- Raises JF006.
create or replace function jobforge.find_unreadable()
returns table (kind text, subject text, tenant_id uuid, since timestamptz, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    perform jobforge.check_installation();
    return query
    (select 'job', j.id::text, j.tenant_id, j.created_at, v.name
       from (select n.id, n.tenant_id, n.created_at, n.payload, n.result
               from jobforge.jobs as n
              where pg_column_size(n.payload) > 1500 or pg_column_size(n.result) > 1500
                 or pg_column_compression(n.payload) is not null
                 or pg_column_compression(n.result) is not null
              limit 2000) as j
      cross join lateral (values ('payload', j.payload), ('result', j.result)) as v(name, value)
      where not jobforge.is_bounded(v.value, 8388608)
      limit 20)
    union all
    (select 'trigger', t.id::text, t.tenant_id, t.created_at, v.name
       from jobforge.triggers as t
      cross join lateral (values ('payload', t.payload), ('filter', t.filter)) as v(name, value)
      where t.deleted_at is null and not jobforge.is_bounded(v.value)
      limit 20)
    union all
    (select 'event', e.id::text, e.tenant_id, e.created_at, 'data'
       from (select n.* from jobforge.outbox as n order by n.id limit 2000) as o
       join jobforge.events as e
         on e.tenant_id = o.tenant_id and e.id = o.event_id and e.created_at = o.event_at
      where not jobforge.is_bounded(e.data)
      limit 20)
    union all
    (select 'removed', j.id::text, j.tenant_id, j.finished_at, 'payload'
       from jobforge.jobs as j
      where j.state = 'dead' and j.error ->> 'type' = 'UnreadablePayload'
      order by j.finished_at desc
      limit 20);
end $$;
