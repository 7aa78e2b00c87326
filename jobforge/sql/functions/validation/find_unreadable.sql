-- Operators call this for JSON values that are too long as text, in all tables, and for jobs that
-- claims ended because of their payload. Only a superuser or a restore can store such values.
-- `kind` is
--   job       a live job; `subject` is its ID
--   removed   a dead job whose payload was removed; `subject` is its ID
--   a table   any other row; `subject` is a condition that selects the row
-- and `detail` has the columns. At most 20 rows of each kind. Reads 50,000 rows of each table,
-- newest partitions first, and checks 1,000 of these with large values. Only reads. Raises JF006
-- for a caller with a tenant.
create or replace function jobforge.find_unreadable()
returns table (kind text, subject text, tenant_id uuid, since timestamptz, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
begin
    perform jobforge_private.require_no_tenant();
    return query
    select case t.name when 'jobs' then 'job' else t.name end,
           case t.name when 'jobs' then u.key ->> 'id' else (
               select string_agg(format('%I = %L', k.name, u.key ->> k.name), ' and ' order by n)
                 from unnest(array['tenant_id'] || t.key) with ordinality as k(name, n)
                where u.key ->> k.name is not null) end,
           (u.key ->> 'tenant_id')::uuid, (u.key ->> t.since)::timestamptz, u.columns
      from (values ('jobs', '{id}'::text[], 'created_at'),
                   ('finished_jobs', '{id,finished_at}', 'finished_at'),
                   ('attempts', '{job_id,lease,ended_at}', 'ended_at'),
                   ('job_events', '{job_id,at}', 'at'),
                   ('steps', '{job_id,kind,name,index}', 'at'),
                   ('waits', '{job_id}', 'since'),
                   ('workflows', '{id}', 'created_at'),
                   ('triggers', '{id}', 'created_at'),
                   ('declared_triggers', '{name,type}', 'declared_at'),
                   ('events', '{id,created_at}', 'created_at'),
                   ('webhook_deliveries', '{endpoint_id,id,created_at}', 'created_at'),
                   ('connector_configs', '{id}', 'created_at'),
                   ('operations', '{id}', 'created_at'),
                   ('definitions', '{key,version}', 'created_at'),
                   ('audit_log', '{id,at}', 'at')) as t(name, key, since)
     cross join lateral jobforge_private.unreadable_rows(t.name, t.key || t.since) as u;
    return query
    select 'removed', j.id::text, j.tenant_id, j.finished_at, 'payload'
      from jobforge.jobs as j
     where j.state = 'dead' and j.error @> '{"type": "UnreadablePayload"}'
     order by j.finished_at desc
     limit 20;
end $$;
