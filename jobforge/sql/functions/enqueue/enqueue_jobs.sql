-- Applications call this inside their transaction: the jobs exist if it commits. p_jobs is an array
-- of objects; docs/sql.md lists their fields. Returns one row per element, in order:
--   created   a new job           existing  the job that holds the idempotency key
--   replaced  that job had not started and now has the new content
-- Inserts all jobs or none. Waits only for a transaction that enqueues the same idempotency key or
-- finishes a parent. Locks idempotency keys in order of key, then the jobs that it replaces, then
-- parents. Raises JF001, JF002 (with field and index), JF004 (a parent), JF006 to JF011, JF014, and
-- JF012 for parents outside READ COMMITTED.
create or replace function jobforge.enqueue_jobs(p_jobs jsonb, p_tenant_id uuid default null)
returns table (index integer, job_id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_tenant uuid := jobforge_private.resolve_tenant(p_tenant_id);
    v_first_id uuid := jobforge_private.uuid7();
    v_held integer[] := '{}';
    v_holders uuid[];
    v_statuses text[];
begin
    perform jobforge_private.check_jobs(p_jobs);
    if jsonb_path_exists(p_jobs, '$[*].key') then
        select coalesce(array_agg(h.index), '{}'), array_agg(h.job_id), array_agg(h.status)
          into v_held, v_holders, v_statuses
          from jobforge_private.reserve_keys(v_tenant, p_jobs, v_first_id) as h;
    end if;
    if cardinality(v_held) = jsonb_array_length(p_jobs) then
        -- If any job is inserted, insert_jobs checks this, because it reads the tenant's row
        -- anyway.
        perform jobforge_private.check_not_erased(v_tenant);
    end if;
    perform jobforge_private.insert_jobs(v_tenant, p_jobs, v_first_id, v_held);
    if jsonb_path_exists(p_jobs, '$[*].after') then
        perform jobforge_private.link_parents(v_tenant, p_jobs, v_first_id, v_held);
    end if;
    return query
    select i - 1, coalesce(h.job_id, jobforge_private.nth_id(v_first_id, i)),
           coalesce(h.status, 'created')
      from generate_series(1, jsonb_array_length(p_jobs)) as i
      left join unnest(v_held, v_holders, v_statuses) as h(index, job_id, status) on h.index = i
     order by i;
end $$;
