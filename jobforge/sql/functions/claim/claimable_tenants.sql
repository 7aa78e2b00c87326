-- The tenants a worker may touch: those it was confined to and, when app.tenant_id is set, no
-- other than that one. Null means all. Raises JF006 when the two exclude each other.
create or replace function jobforge_private.claimable_tenants(p_tenants uuid[]) returns uuid[]
language plpgsql stable
as $$
declare
    v_tenant uuid := jobforge.tenant();
begin
    if v_tenant is null then
        return p_tenants;
    elsif v_tenant = any (p_tenants) is false then
        perform jobforge_private.refuse('JF006',
            'the tenants named differ from the tenant of this transaction');
    end if;
    return array[v_tenant];
end $$;
