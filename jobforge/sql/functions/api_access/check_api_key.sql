-- Refuses an API key whose role, tenant, name, scopes or expiry is invalid. Called by
-- create_api_key. Raises JF002.
create or replace function jobforge_private.check_api_key(
    p_name text,
    p_role text,
    p_scopes text[],
    p_expires_at timestamptz,
    p_tenant_id uuid
) returns void
language plpgsql
as $$
declare
    v_field text;
    v_fault text;
begin
    perform jobforge_private.check_name('name', p_name, 200);
    select f.field, f.fault into v_field, v_fault
      from (values
        ('role', 'role must be viewer, tenant_admin, worker or super_admin',
         coalesce(p_role in ('viewer', 'tenant_admin', 'worker', 'super_admin'), false)),
        ('role', 'A super_admin key must not have a tenant',
         p_role is distinct from 'super_admin' or p_tenant_id is null),
        ('tenant_id', 'A viewer or tenant_admin key requires a tenant',
         p_role not in ('viewer', 'tenant_admin') or p_tenant_id is not null),
        ('scopes', 'scopes must be at most 50 names of lowercase letters, digits and _ . : * -',
         p_scopes is null or cardinality(p_scopes) <= 50
             and not exists (select from unnest(p_scopes) as s(scope)
                              where s.scope is null or s.scope !~ '^[a-z0-9_.:*-]{1,100}$')),
        ('expires_at', 'expires_at must be in the future',
         p_expires_at is null or p_expires_at > jobforge_private.now()
             and p_expires_at < 'infinity')
      ) as f(field, fault, is_met)
     where not f.is_met
     limit 1;
    if found then
        perform jobforge_private.refuse('JF002', v_fault, jsonb_build_object('field', v_field));
    end if;
end $$;
