-- Every worker calls this on its tick; no leader is needed. Leases that expired end as
-- lease_lost: the job waits its ordinary backoff, or is dead, or canceled if that was asked. Jobs
-- past expires_at are canceled. Rows that somebody is settling are skipped, and those left for
-- which jobs wait that somebody holds. With app.tenant_id set, only that tenant's jobs. Raises
-- JF002.
create or replace function jobforge.reap_jobs(p_limit integer default 500)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge.now();
    v_tenant uuid := jobforge.tenant();
    v_lost jsonb;
    v_rows tid[];
    v_expired jobforge.settled_jobs;
begin
    perform jobforge.check_limit(p_limit, 5000);
    with expired as materialized (
        select j.tenant_id, j.id, j.worker_id, j.lease
          from jobforge.jobs as j
         where j.state = 'running' and j.lease_expires_at < v_now
           and (v_tenant is null or j.tenant_id = v_tenant)
         order by j.lease_expires_at
         limit p_limit
           for update skip locked
    )
    select jsonb_agg(jsonb_build_object(
               'tenant_id', e.tenant_id, 'job_id', e.id, 'worker_id', e.worker_id,
               'lease', e.lease, 'outcome', 'lease_lost', 'error', jsonb_build_object(
                   'type', 'LeaseLost', 'message', 'the worker stopped renewing its lease')))
      into v_lost
      from expired as e;
    if v_lost is not null then
        return query
        select s.tenant_id, s.job_id, s.lease, s.state
          from jobforge.settle_lost_jobs(v_lost) as s;
    end if;

    v_rows := jobforge.expired_rows(v_now, p_limit);
    select array_agg(x.tenant_id), array_agg(x.id), array_agg(x.lease)
      into v_expired.tenants, v_expired.jobs, v_expired.leases
      from jobforge.jobs as x
     where x.ctid = any (v_rows);
    if jobforge.cancel_expired(v_rows) > 0 then
        return query
        select x.tenant_id, x.id, x.lease, 'canceled'
          from unnest(v_expired.tenants, v_expired.jobs, v_expired.leases)
               as x(tenant_id, id, lease)
         where not exists (select from jobforge.jobs as j
                            where j.tenant_id = x.tenant_id and j.id = x.id);
    end if;
end $$;
