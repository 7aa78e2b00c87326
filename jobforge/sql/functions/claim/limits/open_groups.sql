-- Returns the next groups (gates) of a tenant that have ready jobs in a queue, in order from
-- p_after (exclusive) on, p_limit at most, each with its best job. Leaves out groups of which no
-- job can start, judged without locks by p_limited.full_definitions and by caps and rate limits per
-- key. Groups with an outdated gate are included. A skip scan. Called by pick_gated_jobs and
-- tenants_with_room.
create or replace function jobforge_private.open_groups(
    p_queue text,
    p_tenant_id uuid,
    p_after text,
    p_limit integer,
    p_limited jobforge.limited,
    p_now timestamptz
) returns jobforge.open_group[]
language plpgsql
as $$
begin
    return array(
        with recursive heads as (
            (select j.gate, j.definition, j.limit_key, - j.priority::integer as rank, j.run_at, j.id
               from jobforge.jobs as j
              where j.queue = p_queue and j.tenant_id = p_tenant_id
                and j.state = 'queued' and j.gate is not null and j.gate > p_after
              order by j.gate, - j.priority::integer, j.run_at, j.id limit 1)
            union all
            select n.*
              from heads as h
             cross join lateral (
                select j.gate, j.definition, j.limit_key, - j.priority::integer as rank, j.run_at,
                       j.id
                  from jobforge.jobs as j
                 where j.queue = p_queue and j.tenant_id = p_tenant_id
                   and j.state = 'queued' and j.gate is not null and j.gate > h.gate
                 order by j.gate, - j.priority::integer, j.run_at, j.id limit 1) as n
        )
        select row(h.gate, h.definition, h.rank, h.run_at, h.id)::jobforge.open_group
          from heads as h
          left join lateral (
            select d.max_running_per_key, d.rate_limit_per_key, d.rate_period_per_key_s,
                   coalesce(d.rate_burst_per_key, d.rate_limit_per_key) as rate_burst
              from jobforge.definitions as d
             where d.key = h.definition
             order by d.version desc
             limit 1) as d on h.limit_key is not null
                          and h.definition = any (p_limited.definitions_by_key)
         where h.gate = '*'
            or h.definition <> all (p_limited.full_definitions)
               and (d.max_running_per_key is null or not exists (
                       select from jobforge.jobs as j
                        -- Not "=": see "Ranges instead of equality" in docs/query-plans.md.
                        where (j.tenant_id, j.definition, j.limit_key)
                              >= (p_tenant_id, h.definition, h.limit_key)
                          and (j.tenant_id, j.definition, j.limit_key)
                              <= (p_tenant_id, h.definition, h.limit_key)
                          and j.state = 'running' and j.gate is not null
                        order by j.tenant_id, j.definition, j.limit_key
                       offset d.max_running_per_key - 1 limit 1))
               and (d.rate_limit_per_key is null or jobforge_private.available_tokens(
                       format('key:%s/%s/%s', p_tenant_id, h.definition, h.limit_key),
                       d.rate_limit_per_key, d.rate_period_per_key_s, d.rate_burst, p_now) >= 1)
         limit p_limit);
end $$;
