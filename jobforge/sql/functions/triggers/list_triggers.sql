-- Returns a page of a tenant's triggers, newest first. All fields of the filter are optional, and
-- all given ones must match: type, definition, event, enabled (`true` or `false`). p_before is the
-- last ID of the previous page. `deduplicated`: see count_deduplicated. Raises JF001, JF002, JF006,
-- JF014.
create or replace function jobforge.list_triggers(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, type text, label text, definition text, version integer, queue text,
    priority smallint, payload jsonb, enabled boolean, fault text, declared text, cron text,
    timezone text, zone text, catch_up text, catch_up_limit integer, overlap text,
    jitter_s integer, starts_at timestamptz, ends_at timestamptz, event text, filter jsonb,
    dedupe_window_s integer, dedupe_key text, deduplicated integer, last_fired_at timestamptz,
    next_run_at timestamptz, created_at timestamptz, updated_at timestamptz, created_by text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    perform jobforge_private.check_filter(p_filter, '{type,definition,event,enabled}', '{}');
    return query
    select t.id, t.type, t.label, t.definition, t.version, t.queue, t.priority,
           jobforge_private.readable(t.payload, 67108864 / p_limit),
           t.enabled, t.fault, t.declared, t.cron, t.timezone, jobforge_private.trigger_timezone(t),
           t.catch_up, t.catch_up_limit, t.overlap, t.jitter_s, t.starts_at, t.ends_at, t.event,
           jobforge_private.readable(t.filter, 16777216 / p_limit),
           t.dedupe_window_s, t.dedupe_key, jobforge_private.count_deduplicated(t), t.last_fired_at,
           t.next_run_at, t.created_at, t.updated_at, t.created_by
      from jobforge.triggers as t
     where t.tenant_id = v_tenant and t.deleted_at is null
       and t.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       and (not p_filter ? 'type' or t.type = p_filter ->> 'type')
       and (not p_filter ? 'definition' or t.definition = p_filter ->> 'definition')
       and (not p_filter ? 'event' or t.event = p_filter ->> 'event')
       and (not p_filter ? 'enabled' or t.enabled::text = p_filter ->> 'enabled')
     order by t.id desc
     limit p_limit;
end $$;
