-- Returns a page of the firings of a trigger, also a deleted one, latest first. p_before is the
-- last fire_at of the previous page. Raises JF001, JF002, JF004, JF006, JF014.
create or replace function jobforge.list_firings(
    p_trigger_id uuid,
    p_limit integer default 50,
    p_before timestamptz default null,
    p_tenant_id uuid default null
) returns table (
    fire_at timestamptz, at timestamptz, kind text, outcome text, reason text, job_id uuid,
    created_by text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    if not exists (select from jobforge.triggers as t
                    where t.tenant_id = v_tenant and t.id = p_trigger_id) then
        perform jobforge_private.refuse('JF004', 'Trigger not found',
            jsonb_build_object('id', p_trigger_id));
    end if;
    return query
    select f.fire_at, f.at, f.kind, f.outcome, f.reason, f.job_id, f.created_by
      from jobforge.firings as f
     where f.tenant_id = v_tenant and f.trigger_id = p_trigger_id
       and f.fire_at < coalesce(p_before, 'infinity')
     order by f.fire_at desc
     limit p_limit;
end $$;
