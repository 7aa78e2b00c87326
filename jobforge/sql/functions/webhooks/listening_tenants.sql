-- Returns those of some tenants that have an enabled webhook endpoint, or an empty array. The
-- settle functions call this if the installation has any endpoint, so that they collect only jobs
-- that are reported.
create or replace function jobforge_private.listening_tenants(p_tenants uuid[]) returns uuid[]
language sql stable
as $$
    select coalesce(array_agg(distinct w.tenant_id), '{}')
      from jobforge.webhook_endpoints as w
     where w.enabled and w.tenant_id = any (p_tenants)
$$;
