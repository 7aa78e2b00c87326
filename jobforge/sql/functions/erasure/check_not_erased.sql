-- Refuses to act for a tenant that is erased or whose erasure has begun. Called by require_tenant,
-- and by functions of operators and workers that write rows of a tenant without it. Raises JF014.
create or replace function jobforge_private.check_not_erased(p_tenant_id uuid) returns void
language plpgsql stable
as $$
begin
    if jobforge_private.is_erased(p_tenant_id) then
        perform jobforge_private.refuse('JF014', 'The tenant is erased',
            jsonb_build_object('tenant_id', p_tenant_id));
    end if;
end $$;
