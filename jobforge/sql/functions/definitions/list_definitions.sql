-- Returns a page of definitions by key, each with the version that an enqueue would use and its
-- effective settings. p_prefix selects keys with this prefix; p_after is the last key of the
-- previous page. Definitions belong to the installation, so every tenant sees all. Raises JF002.
create or replace function jobforge.list_definitions(
    p_prefix text default null,
    p_limit integer default 50,
    p_after text default null
) returns table (
    key text, version integer, description text, queue text, timeout_s integer,
    max_attempts integer, backoff_base_s double precision, backoff_cap_s double precision,
    max_running integer, max_running_per_key integer, rate_limit integer,
    rate_period_s double precision, rate_burst integer, rate_limit_per_key integer,
    rate_period_per_key_s double precision, rate_burst_per_key integer, hooks boolean,
    is_active boolean, paused_at timestamptz, created_at timestamptz, updated_at timestamptz,
    versions integer[]
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform jobforge_private.check_limit(p_limit, 200);
    return query
    select d.key, d.version, d.description, d.queue, d.timeout_s, d.max_attempts, d.backoff_base_s,
           d.backoff_cap_s, d.max_running, d.max_running_per_key, d.rate_limit, d.rate_period_s,
           d.rate_burst, d.rate_limit_per_key, d.rate_period_per_key_s, d.rate_burst_per_key,
           d.hooks, d.is_active, d.paused_at, d.created_at, d.updated_at, k.versions
      from (select n.key, array_agg(n.version order by n.version) as versions
              from jobforge.definitions as n
             where (p_prefix is null or starts_with(n.key, p_prefix))
               and (p_after is null or n.key > p_after)
             group by n.key
             order by n.key
             limit p_limit) as k
     cross join lateral jobforge_private.find_definition(k.key) as d
     order by d.key;
end $$;
