-- Applications call this to change settings of a trigger; omitted settings are unchanged. A
-- schedule that is enabled, or given another time, counts from now: earlier times are not caught
-- up. Of a trigger that code declares, only `enabled` can be changed. Locks the trigger. Raises
-- JF001, JF002, JF004, JF005 (declared), JF006, JF009, JF014.
create or replace function jobforge.edit_trigger(
    p_id uuid,
    p_changes jsonb,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_before jobforge.triggers;
    t jobforge.triggers;
begin
    v_before := jobforge_private.lock_trigger(v_tenant, p_id);
    perform jobforge_private.check_trigger(v_before.type, p_changes
        || case when p_changes ? 'version' and not p_changes ? 'definition'
                then jsonb_build_object('definition', v_before.definition) else '{}' end);
    if v_before.declared is not null and p_changes - 'enabled' <> '{}' then
        perform jobforge_private.refuse('JF005',
            'The trigger is declared in code; only enabled can be changed',
            jsonb_build_object('id', p_id, 'declared', v_before.declared));
    end if;
    t := jsonb_populate_record(v_before, p_changes);
    if t is not distinct from v_before then
        return;
    end if;
    -- Always later than before: the scheduler identifies by it the version that it read.
    t.updated_at :=
        greatest(jobforge_private.now(), v_before.updated_at + interval '1 microsecond');
    t.fault := null;
    if not t.enabled then
        t.due_at := null;
        t.next_run_at := null;
    elsif t.type = 'schedule'
          and (t.cron, t.timezone, t.starts_at, t.ends_at, t.enabled) is distinct from
              (v_before.cron, v_before.timezone, v_before.starts_at, v_before.ends_at,
               v_before.enabled) then
        t.since := t.updated_at;
        t.due_at := t.updated_at;
        t.next_run_at := null;
    end if;
    update jobforge.triggers as r
       set updated_at = t.updated_at, since = t.since, due_at = t.due_at,
           next_run_at = t.next_run_at, starts_at = t.starts_at, ends_at = t.ends_at,
           version = t.version, catch_up_limit = t.catch_up_limit, jitter_s = t.jitter_s,
           dedupe_window_s = t.dedupe_window_s, priority = t.priority, enabled = t.enabled,
           label = t.label, definition = t.definition, queue = t.queue, fault = t.fault,
           cron = t.cron, timezone = t.timezone, catch_up = t.catch_up, overlap = t.overlap,
           event = t.event, dedupe_key = t.dedupe_key, payload = t.payload, filter = t.filter
     where r.tenant_id = v_tenant and r.id = p_id;
    perform jobforge_private.audit(v_tenant, 'trigger.edit', p_id::text, p_changes - 'payload');
    perform jobforge_private.wake_scheduler();
exception
    when check_violation then
        perform jobforge_private.refuse('JF002', 'ends_at must be after starts_at',
            '{"field": "ends_at"}');
end $$;
