-- Returns one trigger of a tenant. `deduplicated`: see count_deduplicated. Raises JF001, JF004,
-- JF006, JF014.
create or replace function jobforge.get_trigger(p_id uuid, p_tenant_id uuid default null)
returns table (
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
    return query
    select t.id, t.type, t.label, t.definition, t.version, t.queue, t.priority,
           jobforge_private.readable(t.payload),
           t.enabled, t.fault, t.declared, t.cron, t.timezone, jobforge_private.trigger_timezone(t),
           t.catch_up, t.catch_up_limit, t.overlap, t.jitter_s, t.starts_at, t.ends_at, t.event,
           jobforge_private.readable(t.filter),
           t.dedupe_window_s, t.dedupe_key, jobforge_private.count_deduplicated(t), t.last_fired_at,
           t.next_run_at, t.created_at, t.updated_at, t.created_by
      from jobforge.triggers as t
     where t.tenant_id = v_tenant and t.id = p_id and t.deleted_at is null;
    if not found then
        perform jobforge_private.refuse('JF004',
            'Trigger not found', jsonb_build_object('id', p_id));
    end if;
end $$;
