-- Operators call this to create or change a tenant: slug, name, timezone, weight, max_running,
-- max_pending, rate_limit, rate_period_s, rate_burst. Omitted fields are unchanged; null removes a
-- value. Locks the tenant's row, and running jobs whose gate changes. Raises JF002, JF005 (the slug
-- is taken), JF014.
create or replace function jobforge.put_tenant(p_tenant_id uuid, p_settings jsonb default '{}')
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_zone text;
    v_was_limited boolean;
    v_tenant jobforge.tenants;
begin
    if p_tenant_id is null then
        perform jobforge_private.refuse('JF002', 'tenant_id is required', '{"field": "tenant_id"}');
    end if;
    perform jobforge_private.check_settings(p_settings,
        '{slug,name,timezone,weight,max_running,max_pending, rate_limit,rate_period_s,rate_burst}');
    insert into jobforge.tenants (id, created_at, updated_at)
    values (p_tenant_id, v_now, v_now)
    on conflict (id) do nothing;
    select * into v_tenant from jobforge.tenants as t where t.id = p_tenant_id for update;
    if v_tenant.erased_at is not null then
        perform jobforge_private.check_not_erased(p_tenant_id);
    end if;
    v_zone := v_tenant.timezone;
    v_was_limited := v_tenant.max_running is not null or v_tenant.rate_limit is not null;
    v_tenant := jsonb_populate_record(v_tenant, p_settings);
    -- Reading pg_timezone_names opens every file of the zone database.
    if coalesce(v_tenant.timezone, 'UTC') not in (v_zone, 'UTC')
       and not exists (select from pg_timezone_names as z where z.name = v_tenant.timezone) then
        perform jobforge_private.refuse('JF002', 'timezone must be a time zone name',
            '{"field": "timezone"}');
    end if;
    update jobforge.tenants as t
       set slug = v_tenant.slug, name = v_tenant.name,
           timezone = coalesce(v_tenant.timezone, 'UTC'), weight = coalesce(v_tenant.weight, 1),
           max_running = v_tenant.max_running, max_pending = v_tenant.max_pending,
           rate_limit = v_tenant.rate_limit, rate_period_s = coalesce(v_tenant.rate_period_s, 1),
           rate_burst = v_tenant.rate_burst, updated_at = v_now
     where t.id = p_tenant_id;
    if v_was_limited <> (v_tenant.max_running is not null or v_tenant.rate_limit is not null) then
        perform jobforge_private.regate_running('tenant', null, p_tenant_id, null);
    end if;
    perform jobforge_private.apply_declared_triggers(
        p_tenant_id, coalesce(v_tenant.timezone, 'UTC') <> v_zone, v_now);
    perform jobforge_private.audit(p_tenant_id, 'tenant.put', p_tenant_id::text, p_settings);
exception
    when unique_violation then
        perform jobforge_private.refuse('JF005', 'A tenant with this slug already exists',
            '{"field": "slug"}');
    when check_violation or data_exception then
        perform jobforge_private.refuse('JF002', 'Settings out of range: ' || sqlerrm,
            '{"field": "settings"}');
end $$;
