-- The only way a job comes into being: enqueue, retry, and later areas (triggers, workflows)
-- call it, clients cannot. Elements of p_jobs are checked by the caller; the nth gets the id
-- nth_id(p_first_id, n), except those in p_skip. One statement inserts all and wakes the workers.
-- Raises JF008 (queue full), JF009 and JF010 (definition unknown, inactive).
create or replace function jobforge.insert_jobs(
    p_tenant_id uuid,
    p_jobs jsonb,
    p_first_id uuid,
    p_skip integer[] default '{}'
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge.now();
    v_count integer := jsonb_array_length(p_jobs) - cardinality(p_skip);
    v_tenant jobforge.tenants;
    v_tenant_limited boolean;
    v_limited_queues text[];
    v_inserted integer;
begin
    select * into v_tenant from jobforge.tenants as t where t.id = p_tenant_id;
    v_tenant_limited := v_tenant.max_running is not null or v_tenant.rate_limit is not null
        or v_tenant.paused_at is not null;
    if v_tenant.max_pending is not null then
        perform jobforge.check_pending(p_tenant_id, v_tenant.max_pending, v_count);
    end if;
    v_limited_queues := array(
        select q.name from jobforge.queues as q
         where q.max_running is not null or q.rate_limit is not null);

    with kinds as materialized (
        select distinct g.definition, coalesce(g.version, 0) as version, g.queue,
               coalesce(g.priority, 0::smallint) as priority,
               coalesce(g.delay_s = 0, true) and coalesce(g.run_at <= v_now, true) as is_due
          from jsonb_to_recordset(p_jobs) as g(
               definition text, version integer, queue text, priority smallint,
               delay_s double precision, run_at timestamptz)
    ), known as materialized (
        select n.definition as name, n.version as wanted, d.key, d.version, d.queue, d.max_attempts,
               d.max_running_per_key is not null or d.rate_limit_per_key is not null as key_limited,
               d.max_running is not null or d.rate_limit is not null or d.paused_at is not null as limited
          from (select distinct k.definition, k.version from kinds as k) as n
         cross join lateral jobforge.find_definition(n.definition, nullif(n.version, 0)) as d
         where d.is_active
    ), announced as materialized (
        -- NOTIFY takes a global lock at commit, so it is left out where a ready job of the
        -- last seconds shows that the queue's workers were woken and have not caught up.
        select pg_notify('jobforge:' || r.queue, '')
          from (select distinct coalesce(k.queue, d.queue) as queue
                  from kinds as k
                  join known as d on d.name = k.definition and d.wanted = k.version
                 where k.is_due
                   and not exists (
                       select from jobforge.jobs as j
                        where j.queue = coalesce(k.queue, d.queue) and j.tenant_id = p_tenant_id
                          and j.priority = k.priority and j.state = 'queued' and j.gate is null
                          and j.run_at > v_now - interval '5 seconds')) as r
    ), prepared as (
        select g.*, k.key as definition_key, k.version as definition_version,
               coalesce(g.queue, k.queue) as in_queue,
               coalesce(g.max_attempts, k.max_attempts) as allowed,
               greatest(v_now, g.run_at, v_now + make_interval(secs => g.delay_s)) as due_at,
               jobforge.gate(k.key, g.limit_key, k.key_limited, k.limited,
                   v_tenant_limited or coalesce(g.queue, k.queue) = any (v_limited_queues)) as gate
          from rows from (jsonb_to_recordset(p_jobs) as (
                   definition text, version integer, payload jsonb, queue text, priority smallint,
                   run_at timestamptz, delay_s double precision, expires_at timestamptz,
                   expires_in_s double precision, max_attempts integer, timeout_s integer,
                   key text, limit_key text, tags text[], correlation_id text, traceparent text,
                   created_by text, source text, source_ref text, retry_of uuid, artifact_ref text))
               with ordinality as g(
                   definition, version, payload, queue, priority, run_at, delay_s, expires_at,
                   expires_in_s, max_attempts, timeout_s, key, limit_key, tags, correlation_id,
                   traceparent, created_by, source, source_ref, retry_of, artifact_ref, index)
          join known as k on k.name = g.definition and k.wanted = coalesce(g.version, 0)
         where g.index <> all (p_skip)
    )
    insert into jobforge.jobs (
           tenant_id, id, created_at, run_at, queued_at, expires_at, retry_of, version,
           max_attempts, timeout_s, priority, state, definition, queue, source, gate, limit_key,
           idempotency_key, source_ref, correlation_id, traceparent, created_by, artifact_ref,
           tags, payload)
    select p_tenant_id, jobforge.nth_id(p_first_id, p.index), v_now, p.due_at,
           case when p.due_at <= v_now then v_now end,
           coalesce(p.expires_at, v_now + make_interval(secs => p.expires_in_s)),
           p.retry_of, p.definition_version, p.allowed, p.timeout_s, coalesce(p.priority, 0),
           case when p.due_at <= v_now then 'queued' else 'scheduled' end,
           p.definition_key, p.in_queue, coalesce(p.source, 'manual'), p.gate, p.limit_key, p.key,
           p.source_ref, p.correlation_id, p.traceparent, p.created_by, p.artifact_ref,
           p.tags, coalesce(p.payload, '{}')
      from prepared as p
     where (select count(*) from announced) >= 0;

    get diagnostics v_inserted = row_count;
    if v_inserted < v_count then
        perform jobforge.refuse_definitions(p_jobs);
    end if;
end $$;
