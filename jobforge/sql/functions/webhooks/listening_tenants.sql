-- Those of some tenants that have a webhook endpoint to be told. The settles ask, where there is
-- any endpoint at all, so that they gather only what somebody wants to hear.
-- Empty when there is none.
create or replace function jobforge_private.listening_tenants(p_tenants uuid[]) returns uuid[]
language sql stable
as $$
    select coalesce(array_agg(distinct w.tenant_id), '{}')
      from jobforge.webhook_endpoints as w
     where w.enabled and w.tenant_id = any (p_tenants)
$$;
