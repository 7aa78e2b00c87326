-- Creates, updates or keeps the trigger of one tenant that code declares under a name and type.
-- Called by declare_triggers, and for a new tenant by apply_declared_triggers. Locks the trigger if
-- it exists.
create or replace function jobforge_private.declare_trigger(
    p_tenant_id uuid,
    p_name text,
    p_type text,
    p_settings jsonb,
    p_now timestamptz
) returns void
language plpgsql
as $$
declare
    v_before jobforge.triggers;
    t jobforge.triggers;
begin
    select r.* into v_before
      from jobforge.triggers as r
     where r.tenant_id = p_tenant_id and r.declared = p_name and r.type = p_type;
    if not found then
        perform jobforge_private.put_trigger(
            p_tenant_id, jobforge_private.uuid7(), p_type, p_settings, p_name, p_now);
        return;
    end if;
    t := jsonb_populate_record(v_before, '{"version": null, "queue": null, "priority": 0,
        "payload": {}, "timezone": "tenant", "catch_up": "last", "catch_up_limit": 10,
        "overlap": "allow", "jitter_s": 0, "starts_at": null, "ends_at": null,
        "filter": [], "dedupe_window_s": 300, "dedupe_key": null}'
        || (p_settings - 'enabled'));
    if t is not distinct from v_before and t.deleted_at is null then
        return;
    end if;
    update jobforge.triggers as r
       set updated_at = greatest(p_now, r.updated_at + interval '1 microsecond'),
           deleted_at = null, fault = null, version = t.version, queue = t.queue,
           priority = t.priority, label = t.label, definition = t.definition,
           payload = t.payload, cron = t.cron, timezone = t.timezone, catch_up = t.catch_up,
           catch_up_limit = t.catch_up_limit, overlap = t.overlap, jitter_s = t.jitter_s,
           starts_at = t.starts_at, ends_at = t.ends_at, event = t.event, filter = t.filter,
           dedupe_window_s = t.dedupe_window_s, dedupe_key = t.dedupe_key,
           -- The scheduler had disabled it for a fault that the declaration has fixed.
           enabled = r.enabled or r.fault is not null,
           since = case when v_time.is_new then p_now else r.since end,
           due_at = case when v_time.is_new
                         then case when r.enabled or r.fault is not null then p_now end
                         else r.due_at end,
           next_run_at = case when v_time.is_new then null else r.next_run_at end
      from (select p_type = 'schedule'
                   and (v_before.deleted_at is not null or v_before.fault is not null
                   or (t.cron, t.timezone, t.starts_at, t.ends_at) is distinct from
                      (v_before.cron, v_before.timezone, v_before.starts_at, v_before.ends_at))
                   as is_new) as v_time
     where r.tenant_id = p_tenant_id and r.id = v_before.id;
    perform jobforge_private.wake_scheduler();
end $$;
