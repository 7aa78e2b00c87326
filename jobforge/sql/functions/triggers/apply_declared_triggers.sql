-- Applies the triggers that code declares for every tenant to a tenant that was created or changed,
-- and replans its schedules if its time zone changed. Leaves out a declared trigger that is too
-- long as JSON text (is_bounded). Called by put_tenant.
create or replace function jobforge_private.apply_declared_triggers(
    p_tenant_id uuid,
    p_has_moved boolean,
    p_now timestamptz
) returns void
language plpgsql
as $$
begin
    perform jobforge_private.declare_trigger(p_tenant_id, d.name, d.type, d.settings, p_now)
       from jobforge.declared_triggers as d
      where jobforge_private.is_bounded(d.settings);
    if not p_has_moved then
        return;
    end if;
    update jobforge.triggers as t
       set since = p_now, due_at = p_now, next_run_at = null,
           updated_at = greatest(p_now, t.updated_at + interval '1 microsecond')
     where t.tenant_id = p_tenant_id and t.type = 'schedule' and t.timezone = 'tenant'
       and t.enabled and t.deleted_at is null;
    perform jobforge_private.wake_scheduler();
end $$;
