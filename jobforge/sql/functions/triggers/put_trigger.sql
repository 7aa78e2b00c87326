-- Inserts a trigger whose settings were checked, and notifies the scheduler. Called by
-- create_trigger and declare_trigger. Raises JF002 if it would end before it starts.
create or replace function jobforge_private.put_trigger(
    p_tenant_id uuid,
    p_id uuid,
    p_type text,
    p_settings jsonb,
    p_declared text,
    p_now timestamptz
) returns void
language plpgsql
as $$
declare
    t jobforge.triggers;
begin
    t.catch_up_limit := 10;
    t.jitter_s := 0;
    t.dedupe_window_s := 300;
    t.priority := 0;
    t.enabled := true;
    t.timezone := 'tenant';
    t.catch_up := 'last';
    t.overlap := 'allow';
    t.payload := '{}';
    t.filter := '[]';
    t := jsonb_populate_record(t, p_settings);
    t.tenant_id := p_tenant_id;
    t.id := p_id;
    t.type := p_type;
    t.declared := p_declared;
    t.created_at := p_now;
    t.updated_at := p_now;
    t.since := p_now;
    t.created_by := jobforge_private.actor();
    if p_type = 'schedule' and t.enabled then
        t.due_at := p_now;
    end if;
    insert into jobforge.triggers select t.*;
    perform jobforge_private.wake_scheduler();
exception
    when check_violation then
        perform jobforge_private.refuse('JF002', 'ends_at must be after starts_at',
            '{"field": "ends_at"}');
end $$;
