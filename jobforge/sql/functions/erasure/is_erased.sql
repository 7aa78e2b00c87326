-- Returns whether a tenant is erased or its erasure has begun: nothing may be stored for it.
-- PL/pgSQL, because that caches its plan between calls. Called by check_not_erased, and by
-- functions that write rows of a tenant without require_tenant.
create or replace function jobforge_private.is_erased(p_tenant_id uuid) returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from jobforge.tenants as t where t.id = p_tenant_id and t.erased_at is not null);
end $$;
