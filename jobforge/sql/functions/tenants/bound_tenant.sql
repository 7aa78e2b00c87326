-- Returns the tenant for which a login that is bound to p_bound acts when it names p_named (null:
-- none). Called by tenant and resolve_tenant. Raises JF001 if it must name one, and JF006 for
-- another tenant.
create or replace function jobforge_private.bound_tenant(p_bound uuid[], p_named uuid) returns uuid
language plpgsql stable
as $$
begin
    if p_named = any (p_bound) then
        return p_named;
    elsif p_named is not null then
        perform jobforge_private.refuse('JF006',
            format('Login ''%s'' is bound to other tenants', session_user));
    elsif cardinality(p_bound) = 1 then
        return p_bound[1];
    elsif p_bound = '{}' then
        perform jobforge_private.refuse('JF006',
            format('All tenants of login ''%s'' are erased', session_user));
    end if;
    perform jobforge_private.refuse('JF001',
        format('Login ''%s'' is bound to several tenants, and none is set', session_user),
        '{}', 'Call set_config(''app.tenant_id'', …, true) in this transaction');
    return null;
end $$;
