-- Returns the tenant that a call names, erased or not. The setting app.tenant_id decides; an
-- argument may repeat it, never contradict it (JF006). Without the setting, only a trusted back end
-- (session_user in jobforge_service or jobforge_server) may name the tenant by argument; others get
-- JF001. A bound login can name no other tenant by either (JF006), and need not name its only one.
-- The largest UUID is not a valid tenant (JF002), because skip scans use it as the upper bound.
-- Called by require_tenant, by enqueue_payloads and enqueue_jobs, which read the tenant's row
-- anyway, and by functions that show the operation of an erasure.
create or replace function jobforge_private.resolve_tenant(p_tenant_id uuid) returns uuid
language plpgsql stable
as $$
declare
    -- The same as jobforge.tenant(), without the call.
    v_setting uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
    v_bound uuid[] := (select b.tenants from jobforge.bound_logins as b
                        where b.login = session_user);
begin
    if 'ffffffff-ffff-ffff-ffff-ffffffffffff' in (v_setting, p_tenant_id) then
        perform jobforge_private.refuse('JF002', 'The largest UUID is not a valid tenant ID',
            '{"field": "tenant_id"}');
    end if;
    if v_bound is not null and (v_setting is not null or cardinality(v_bound) = 1) then
        v_setting := jobforge_private.bound_tenant(v_bound, v_setting);
    end if;
    if v_setting is not null then
        if p_tenant_id is null or p_tenant_id = v_setting then
            return v_setting;
        end if;
        perform jobforge_private.refuse('JF006',
            'The given tenant differs from the transaction''s tenant');
    end if;
    if p_tenant_id is not null
       and (pg_has_role(session_user, 'jobforge_service', 'usage')
            or pg_has_role(session_user, 'jobforge_server', 'usage')) then
        return case when v_bound is null then p_tenant_id
                    else jobforge_private.bound_tenant(v_bound, p_tenant_id) end;
    elsif v_bound is not null then
        return jobforge_private.bound_tenant(v_bound, null);
    end if;
    perform jobforge_private.refuse('JF001',
        'No tenant is set; call set_config(''app.tenant_id'', …, true) in this transaction');
    return null;
end $$;
