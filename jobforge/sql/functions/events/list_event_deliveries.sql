-- Returns a page of the deliveries of a trigger, newest first. p_before is the last ID of the
-- previous page; p_outcome selects one outcome. Raises JF001, JF002, JF004, JF006, JF014.
create or replace function jobforge.list_event_deliveries(
    p_trigger_id uuid,
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null,
    p_outcome text default null
) returns table (
    id uuid, event_id uuid, trigger_id uuid, label text, outcome text, reason text, job_id uuid,
    replay integer, at timestamptz
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
begin
    perform jobforge_private.check_limit(p_limit, 200);
    if p_outcome not in ('enqueued', 'deduplicated', 'filtered', 'failed') then
        perform jobforge_private.refuse('JF002',
            'outcome must be enqueued, deduplicated, filtered or failed', '{"field": "outcome"}');
    end if;
    if not exists (select from jobforge.triggers as t
                    where t.tenant_id = v_tenant and t.id = p_trigger_id) then
        perform jobforge_private.refuse('JF004', 'Trigger not found',
            jsonb_build_object('id', p_trigger_id));
    end if;
    return query
    select d.id, d.event_id, d.trigger_id, t.label, d.outcome, d.reason, d.job_id, d.replay, d.at
      from jobforge.event_deliveries as d
      left join jobforge.triggers as t on t.tenant_id = v_tenant and t.id = p_trigger_id
     where d.tenant_id = v_tenant and d.trigger_id = p_trigger_id
       and d.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       and (p_outcome is null or d.outcome = p_outcome)
     order by d.id desc
     limit p_limit;
end $$;
