-- Returns a page of a tenant's jobs, without payloads and results. p_order is newest or oldest
-- first. The filter is that of matching_jobs; p_before is the last ID of the previous page. Raises
-- JF001, JF002, JF006, JF014.
create or replace function jobforge.list_jobs(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null,
    p_order text default 'newest'
) returns table (
    id uuid, state text, definition text, version integer, queue text, priority smallint,
    attempt integer, max_attempts integer, created_at timestamptz, run_at timestamptz,
    queued_at timestamptz, started_at timestamptz, finished_at timestamptz, worker_id uuid,
    source text, source_ref text, correlation_id text, idempotency_key text, tags text[],
    fingerprint text, error jsonb, retry_of uuid, created_by text
)
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
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_ids uuid[];
begin
    perform jobforge_private.check_limit(p_limit, 200);
    if p_order = 'newest' then
        v_ids := array(
            select jobforge_private.matching_jobs(v_tenant, p_filter, p_limit, p_before));
    elsif p_order = 'oldest' then
        v_ids := array(
            select jobforge_private.oldest_matching_jobs(v_tenant, p_filter, p_limit, p_before));
    else
        perform jobforge_private.refuse('JF002',
            'order must be newest or oldest', '{"field": "order"}');
    end if;
    return query
    select a.id, case when a.cancel_requested_at is not null and a.state = 'running'
                      then 'canceling' else a.state end,
           a.definition, a.version, a.queue, a.priority, a.attempt, a.max_attempts, a.created_at,
           a.run_at, a.queued_at, a.started_at, a.finished_at, a.worker_id, a.source, a.source_ref,
           a.correlation_id, a.idempotency_key, a.tags, a.fingerprint,
           jobforge_private.readable(a.error, 67108864 / p_limit), a.retry_of, a.created_by
      from unnest(v_ids) with ordinality as m(id, place)
     cross join lateral (select * from jobforge.all_jobs as x
                          where x.tenant_id = v_tenant and x.id = m.id limit 1) as a
     order by m.place;
end $$;
