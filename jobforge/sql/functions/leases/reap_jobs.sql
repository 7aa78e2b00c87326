-- Every worker calls this periodically; no leader is needed. Expired leases end as lease_lost: the
-- job waits for its ordinary backoff, or is dead, or canceled if that was requested. If no process
-- called this for a while, as in an outage of the database, leases that expired in that time are
-- left for the length of a lease, so that live workers can report first. Jobs past their expires_at
-- are canceled. Skips rows that are being settled, and jobs whose children another transaction
-- holds. With app.tenant_id set, only that tenant's jobs. Locks jobs, then their heartbeats. Raises
-- JF002, and JF012 outside READ COMMITTED.
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
    v_now timestamptz := jobforge_private.now();
    v_tenant uuid := jobforge.tenant();
    v_outage record;
    v_lost jsonb;
    v_rows tid[];
    v_expired jobforge.settled_jobs;
begin
    perform jobforge_private.require_read_committed('reap_jobs');
    perform jobforge_private.check_limit(p_limit, 5000);
    select * into v_outage from jobforge_private.last_outage(v_tenant, v_now);
    v_lost := jobforge_private.find_lost_leases(
        v_now, p_limit, v_outage.outage_from, v_outage.outage_until);
    if v_lost is not null then
        return query
        select s.tenant_id, s.job_id, s.lease, s.state
          from jobforge_private.settle_lost_jobs(v_lost) as s;
    end if;

    v_rows := jobforge_private.lock_expired_rows(v_now, p_limit);
    select array_agg(x.tenant_id), array_agg(x.id), array_agg(x.lease)
      into v_expired.tenants, v_expired.jobs, v_expired.leases
      from jobforge.jobs as x
     where x.ctid = any (v_rows);
    if jobforge_private.cancel_expired(v_rows) > 0 then
        return query
        select x.tenant_id, x.id, x.lease, 'canceled'
          from unnest(v_expired.tenants, v_expired.jobs, v_expired.leases)
               as x(tenant_id, id, lease)
         where not exists (select from jobforge.jobs as j
                            where j.tenant_id = x.tenant_id and j.id = x.id);
    end if;
    perform jobforge_private.record_reap(v_tenant, v_outage.outage_from, v_outage.outage_until);
end $$;
