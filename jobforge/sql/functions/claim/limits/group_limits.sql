-- Returns the limits of a group of jobs, one row each: the subject, the cap (0 while paused) and
-- the token bucket. p_definition is null for a group with several definitions, none of which has
-- limits. Called by pick_group, current_gate and explain_limits.
create or replace function jobforge_private.group_limits(
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_limit_key text
) returns table (
    kind text, subject text, max_running integer,
    rate_limit integer, rate_period_s double precision, rate_burst integer, changed_at timestamptz
)
language sql stable
as $$
    select 'queue', 'queue:' || q.name, q.max_running,
           q.rate_limit, q.rate_period_s, coalesce(q.rate_burst, q.rate_limit), q.updated_at
      from jobforge.queues as q
     where q.name = p_queue
       and (q.max_running is not null or q.rate_limit is not null)
    union all
    select 'tenant', 'tenant:' || t.id,
           case when t.paused_at is not null then 0 else t.max_running end,
           t.rate_limit, t.rate_period_s, coalesce(t.rate_burst, t.rate_limit), t.updated_at
      from jobforge.tenants as t
     where t.id = p_tenant_id
       and (t.max_running is not null or t.rate_limit is not null or t.paused_at is not null)
    union all
    select l.*
      from (select * from jobforge.definitions as n
             where n.key = p_definition order by n.version desc limit 1) as d
     cross join lateral (
        select 'definition', 'definition:' || d.key,
               case when d.paused_at is not null then 0 else d.max_running end,
               d.rate_limit, d.rate_period_s, coalesce(d.rate_burst, d.rate_limit), d.updated_at
         where d.max_running is not null or d.rate_limit is not null or d.paused_at is not null
        union all
        select 'key', format('key:%s/%s/%s', p_tenant_id, d.key, p_limit_key),
               d.max_running_per_key,
               d.rate_limit_per_key, d.rate_period_per_key_s,
               coalesce(d.rate_burst_per_key, d.rate_limit_per_key), d.updated_at
         where p_limit_key is not null
           and (d.max_running_per_key is not null or d.rate_limit_per_key is not null)) as l
$$;
