-- Workers call this to register the definitions of their code, and operators may too. Safe to
-- repeat. p_settings: description, parameters (JSON Schema), queue, timeout_s, max_attempts,
-- backoff_base_s, backoff_cap_s, max_running, max_running_per_key, rate_limit, rate_period_s,
-- rate_burst, rate_limit_per_key, rate_period_per_key_s, rate_burst_per_key, is_active, hooks (a
-- job that finishes is followed by a job of `<key>:hooks`), command (its jobs run a program, which
-- workers must allow). Overrides and pauses of operators stay
-- in effect. Limits belong to the key: those of its newest version apply to all. Locks the
-- registration of the key. Raises JF002.
create or replace function jobforge.put_definition(
    p_key text,
    p_version integer,
    p_settings jsonb default '{}'
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    if p_key is null or p_key !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$' then
        perform jobforge_private.refuse('JF002',
            'key must be a name of at most 200 letters, digits and _ . : -',
            '{"field": "key"}');
    elsif p_version is null or p_version < 1 then
        perform jobforge_private.refuse('JF002', 'version must be at least 1',
            '{"field": "version"}');
    end if;
    perform jobforge_private.check_settings(p_settings,
        '{description,parameters,queue,timeout_s,max_attempts,
        backoff_base_s,backoff_cap_s,max_running,max_running_per_key,rate_limit,rate_period_s,
        rate_burst,rate_limit_per_key,rate_period_per_key_s,rate_burst_per_key,is_active,hooks,
        command}');
    -- Several workers start at once: a repeated registration must not wait or write.
    if exists (select from jobforge.definitions as d
                where d.key = p_key and d.version = p_version and d.registered = p_settings) then
        return;
    end if;
    perform jobforge_private.acquire_lock('registration ' || p_key);
    insert into jobforge.definitions as d (
           key, version, registered, overrides, queue, timeout_s, max_attempts, backoff_base_s,
           backoff_cap_s, rate_period_s, rate_period_per_key_s, is_active, paused_at, created_at,
           updated_at)
    select p_key, p_version, p_settings, coalesce(o.overrides, '{}'), 'default', 3600, 5, 1, 3600,
           1, 1, true, o.paused_at, v_now, v_now
      from (select) as one
      left join (select n.overrides, n.paused_at from jobforge.definitions as n
                  where n.key = p_key order by n.version desc limit 1) as o on true
    on conflict (key, version) do update set registered = excluded.registered;
    perform jobforge_private.apply_definition(p_key);
end $$;
