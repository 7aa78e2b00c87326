-- Operators call this to override settings that code registered: limits, timeout_s, max_attempts,
-- backoff, is_active. Null removes an override. Overrides apply to all versions of the key and
-- survive re-registration. Locks the registration of the key. Raises JF002, JF004.
create or replace function jobforge.override_definition(p_key text, p_overrides jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobforge_private.check_settings(p_overrides,
        '{timeout_s,max_attempts,backoff_base_s,backoff_cap_s,
        max_running,max_running_per_key,rate_limit,rate_period_s,rate_burst,rate_limit_per_key,
        rate_period_per_key_s,rate_burst_per_key,is_active}');
    perform jobforge_private.acquire_lock('registration ' || p_key);
    update jobforge.definitions as d
       set overrides = jsonb_strip_nulls(d.overrides || p_overrides)
     where d.key = p_key;
    if not found then
        perform jobforge_private.refuse('JF004', format('Definition ''%s'' not found', p_key),
            jsonb_build_object('key', p_key));
    end if;
    perform jobforge_private.apply_definition(p_key);
    perform jobforge_private.audit(null, 'definition.override', p_key, p_overrides);
end $$;
