-- Returns a page of a tenant's operations, newest first. p_before is the last ID of the previous
-- page. Raises JF001, JF002, JF006.
create or replace function jobforge.list_operations(
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, kind text, state text, filter jsonb, options jsonb, matched bigint, done bigint,
    skipped bigint, reason text, created_by text, created_at timestamptz, started_at timestamptz,
    finished_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.resolve_tenant(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    return query
    select o.id, o.kind, o.state,
           jobforge_private.readable(o.filter, 67108864 / p_limit),
           jobforge_private.readable(o.options, 67108864 / p_limit), o.matched, o.done, o.skipped,
           o.reason, o.created_by, o.created_at, o.started_at, o.finished_at
      from jobforge.operations as o
     where o.tenant_id = v_tenant
       and o.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     order by o.id desc
     limit p_limit;
end $$;
