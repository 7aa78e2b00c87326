-- Returns the tenants that a worker may serve: p_tenants, confined to app.tenant_id if that is set.
-- Null means all tenants. Called by claim_jobs, read_stream and count_states. Raises JF006 if
-- p_tenants does not include app.tenant_id.
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
            'The given tenants differ from the transaction''s tenant');
    end if;
    return array[v_tenant];
end $$;
