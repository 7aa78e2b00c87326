-- Returns a page of a tenant's events, newest first, without their data, with the number of
-- deliveries of each outcome. All fields of the filter are optional, and all given ones must match:
-- name (or a prefix such as `order.*`), correlation_id, after (inclusive) and before (exclusive).
-- p_before is the last ID of the previous page. Reads events in order until the page is full, so a
-- filter that few events match reads many. Raises JF001, JF002, JF006, JF014.
create or replace function jobforge.list_events(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, name text, correlation_id text, key text, traceparent text, created_by text,
    created_at timestamptz, is_pending boolean, outcomes jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_after timestamptz;
    v_before timestamptz;
begin
    perform jobforge_private.check_limit(p_limit, 200);
    perform jobforge_private.check_filter(p_filter, '{name,correlation_id}', '{after,before}');
    v_after := (p_filter ->> 'after')::timestamptz;
    v_before := (p_filter ->> 'before')::timestamptz;
    return query
    with page as materialized (
        select e.id, e.name, e.correlation_id, e.key, e.traceparent, e.created_by, e.created_at
          from jobforge.events as e
         where e.tenant_id = v_tenant
           and e.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           and (not p_filter ? 'name'
                or jobforge_private.matches_event(p_filter ->> 'name', e.name))
           and (not p_filter ? 'correlation_id'
                or e.correlation_id = p_filter ->> 'correlation_id')
           and (v_after is null or e.created_at >= v_after)
           and (v_before is null or e.created_at < v_before)
         order by e.id desc
         limit p_limit
    )
    select p.*,
           exists (select from jobforge.outbox as o
                    where o.tenant_id = v_tenant and o.event_id = p.id),
           (select coalesce(jsonb_object_agg(c.outcome, c.n), '{}')
              from (select d.outcome, count(*) as n
                      from jobforge.event_deliveries as d
                     where d.tenant_id = v_tenant and d.event_id = p.id
                       and d.event_at = p.created_at
                     group by 1) as c)
      from page as p
     order by p.id desc;
end $$;
