-- Locks the next ungated jobs of the tenants in p_heads, up to the quota of each and p_limit in
-- all. Skips rows that others have locked. Expired jobs, and jobs whose tenant, definition or queue
-- was limited or paused after they were queued, are corrected instead (canceled, given a gate) and
-- counted in `corrected`. With p_remember, also returns the position of every job that was found.
-- Called by pick_round.
create or replace function jobforge_private.pick_ready_jobs(
    p_queue text,
    p_limit integer,
    p_definitions text[],
    p_limited jobforge.limited,
    p_remember boolean,
    p_heads jobforge.tenant_head[]
) returns jobforge.ready_jobs
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_found jobforge.ready_jobs;
    v_front uuid := p_heads[1].id;
    v_expired tid[];
    v_limited uuid[];
begin
    with candidates as materialized (
        select t.tenant_id, j.*,
               j.of_limited or p_limited.queue or w.paused_at is not null
                   or w.max_running is not null or w.rate_limit is not null as is_limited
          from unnest(p_heads) as t
          left join jobforge.tenants as w on p_limited.tenants and w.id = t.tenant_id
         cross join lateral (
            select q.ctid as row_id, - q.priority::integer as rank, q.run_at, q.id,
                   q.expires_at <= v_now and q.started_at is null as is_expired,
                   q.definition = any (p_limited.definitions)
                       or q.limit_key is not null
                          and q.definition = any (p_limited.definitions_by_key) as of_limited
              from jobforge.jobs as q
             where q.queue = p_queue and q.tenant_id = t.tenant_id
               and q.state = 'queued' and q.gate is null
               and (- q.priority::integer, q.run_at, q.id) >= (t.rank, t.run_at, t.id)
               and (p_definitions is null or q.definition || '@' || q.version = any (p_definitions))
             order by - q.priority::integer, q.run_at, q.id
             limit t.quota
               for update skip locked) as j
         where t.quota > 0
         limit p_limit
    )
    select array_agg(c.row_id) filter (where c.is_expired is not true and not c.is_limited),
           array_agg(c.row_id) filter (where c.is_expired),
           -- Not `distinct`, which would sort all rows.
           array_agg(c.tenant_id) filter (where c.is_expired is not true and c.is_limited),
           case when p_remember then
               array_agg(row(c.tenant_id, c.rank, c.run_at, c.id, 0, null)
                         ::jobforge.tenant_head) end,
           bool_or(c.id = v_front)
      into v_found.picked, v_expired, v_limited, v_found.reached, v_found.has_front
      from candidates as c;

    v_found.picked := coalesce(v_found.picked, '{}');
    v_found.corrected := 0;
    if v_expired is not null then
        v_found.corrected := jobforge_private.cancel_expired(
            v_expired || jobforge_private.lock_expired_rows(v_now, 1000));
    end if;
    if v_limited is not null then
        v_found.corrected := v_found.corrected + jobforge_private.regate_rows(array(
            select q.ctid
              from (select distinct n from unnest(v_limited) as n) as t(tenant_id)
             cross join lateral (
                select j.ctid
                  from jobforge.jobs as j
                 where j.queue = p_queue and j.tenant_id = t.tenant_id
                   and j.state = 'queued' and j.gate is null
                 order by - j.priority::integer, j.run_at, j.id
                 limit 1000
                   for update skip locked) as q));
    end if;
    return v_found;
end $$;
