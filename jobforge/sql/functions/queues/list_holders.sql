-- Operators call this for the running jobs of a queue, of all tenants, the longest-running first,
-- up to p_limit. Reads every running job. Raises JF002, and JF006 for a caller with a tenant.
create or replace function jobforge.list_holders(p_queue text, p_limit integer default 50)
returns table (
    tenant_id uuid, slug text, job_id uuid, definition text, version integer, limit_key text,
    worker_id uuid, started_at timestamptz, lease_expires_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    perform jobforge_private.check_limit(p_limit, 200);
    perform jobforge_private.require_no_tenant();
    return query
    select j.tenant_id, t.slug, j.id, j.definition, j.version, j.limit_key, j.worker_id,
           j.started_at, greatest(j.lease_expires_at, h.expires_at)
      from jobforge.jobs as j
      left join jobforge.heartbeats as h
        on h.tenant_id = j.tenant_id and h.job_id = j.id and h.lease = j.lease
      left join jobforge.tenants as t on t.id = j.tenant_id
     where j.state = 'running' and j.lease_expires_at > '-infinity' and j.queue = p_queue
     order by j.started_at, j.id
     limit p_limit;
end $$;
