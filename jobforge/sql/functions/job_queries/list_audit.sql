-- Returns a page of a tenant's audit log, newest first; operators without a tenant see all entries.
-- All fields of the filter are optional, and all given ones must match: actor, action, target,
-- after (inclusive) and before (exclusive). p_before is the last ID of the previous page. Merges
-- the monthly partitions in order of ID until the page is full, so a filter that few rows match
-- reads many; `after` and `before` exclude whole months. Raises JF001, JF002, JF006.
create or replace function jobforge.list_audit(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, tenant_id uuid, at timestamptz, actor text, action text, target text, detail jsonb
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
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
    v_after timestamptz;
    v_before timestamptz;
begin
    perform jobforge_private.check_limit(p_limit, 200);
    perform jobforge_private.check_filter(p_filter, '{actor,action,target}', '{after,before}');
    v_after := (p_filter ->> 'after')::timestamptz;
    v_before := (p_filter ->> 'before')::timestamptz;
    return query
    select a.id, a.tenant_id, a.at, a.actor, a.action, a.target,
           jobforge_private.readable(a.detail, 67108864 / p_limit)
      from jobforge.audit_log as a
     where (v_tenant is null or a.tenant_id = v_tenant)
       and a.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       and (not p_filter ? 'actor' or a.actor = p_filter ->> 'actor')
       and (not p_filter ? 'action' or a.action = p_filter ->> 'action')
       and (not p_filter ? 'target' or a.target = p_filter ->> 'target')
       and (v_after is null or a.at >= v_after)
       and (v_before is null or a.at < v_before)
     order by a.id desc
     limit p_limit;
end $$;
