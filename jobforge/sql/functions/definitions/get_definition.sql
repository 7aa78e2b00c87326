-- Returns one definition: its effective settings, the settings that code registered, the operators'
-- overrides, the JSON Schema of its parameters, and its versions. Without a version, the one that
-- an enqueue would use. Raises JF004.
create or replace function jobforge.get_definition(p_key text, p_version integer default null)
returns table (
    key text, version integer, description text, queue text, timeout_s integer,
    max_attempts integer, backoff_base_s double precision, backoff_cap_s double precision,
    max_running integer, max_running_per_key integer, rate_limit integer,
    rate_period_s double precision, rate_burst integer, rate_limit_per_key integer,
    rate_period_per_key_s double precision, rate_burst_per_key integer, hooks boolean,
    is_active boolean, paused_at timestamptz, created_at timestamptz, updated_at timestamptz,
    versions integer[], registered jsonb, overrides jsonb, parameters jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select d.key, d.version, d.description, d.queue, d.timeout_s, d.max_attempts, d.backoff_base_s,
           d.backoff_cap_s, d.max_running, d.max_running_per_key, d.rate_limit, d.rate_period_s,
           d.rate_burst, d.rate_limit_per_key, d.rate_period_per_key_s, d.rate_burst_per_key,
           d.hooks, d.is_active, d.paused_at, d.created_at, d.updated_at,
           array(select n.version from jobforge.definitions as n
                  where n.key = d.key order by n.version),
           jobforge_private.readable(d.registered), jobforge_private.readable(d.overrides),
           jobforge_private.readable(d.parameters)
      from jobforge.definitions as d
     where d.key = p_key and d.version = coalesce(p_version, d.version)
     order by d.is_active desc, d.version desc
     limit 1;
    if not found then
        perform jobforge_private.refuse('JF004', 'Definition not found',
            jsonb_build_object('key', p_key, 'version', p_version));
    end if;
end $$;
