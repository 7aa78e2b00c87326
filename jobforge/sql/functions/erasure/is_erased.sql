-- Whether a tenant was erased or is being erased: nothing may be stored for it. PL/pgSQL keeps its
-- plan between calls. Called by check_not_erased, and by whatever writes rows of a tenant itself.
create or replace function jobforge_private.is_erased(p_tenant_id uuid) returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from jobforge.tenants as t where t.id = p_tenant_id and t.erased_at is not null);
end $$;
