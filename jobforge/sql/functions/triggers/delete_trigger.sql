-- Applications call this to delete a trigger. Its firings stay as long as the history, and its jobs
-- continue. Locks the trigger. Raises JF001, JF004, JF005 (declared in code: it would be created
-- again), JF006, JF014.
create or replace function jobforge.delete_trigger(p_id uuid, p_tenant_id uuid default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    t jobforge.triggers := jobforge_private.lock_trigger(v_tenant, p_id);
begin
    if t.declared is not null then
        perform jobforge_private.refuse('JF005',
            'The trigger is declared in code; remove it there, or disable it',
            jsonb_build_object('id', p_id, 'declared', t.declared));
    end if;
    update jobforge.triggers as r
       set deleted_at = jobforge_private.now(), updated_at = jobforge_private.now(), due_at = null,
           next_run_at = null
     where r.tenant_id = v_tenant and r.id = p_id;
    update jobforge.firings as f
       set outcome = 'skipped', reason = 'the trigger was deleted', at = jobforge_private.now()
     where f.tenant_id = v_tenant and f.trigger_id = p_id and f.outcome = 'pending';
    perform jobforge_private.audit(v_tenant, 'trigger.delete', p_id::text,
        jsonb_build_object('label', t.label));
end $$;
