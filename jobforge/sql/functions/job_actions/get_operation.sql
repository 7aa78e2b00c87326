-- Returns one operation of a tenant and its progress, including the erasure of an erased tenant.
-- Raises JF001, JF004, JF006.
create or replace function jobforge.get_operation(p_id uuid, p_tenant_id uuid default null)
returns table (
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
    return query
    select o.id, o.kind, o.state, jobforge_private.readable(o.filter),
           jobforge_private.readable(o.options), o.matched, o.done, o.skipped, o.reason,
           o.created_by, o.created_at, o.started_at, o.finished_at
      from jobforge.operations as o
     where o.tenant_id = v_tenant and o.id = p_id;
    if not found then
        perform jobforge_private.refuse('JF004', 'Operation not found',
            jsonb_build_object('id', p_id));
    end if;
end $$;
