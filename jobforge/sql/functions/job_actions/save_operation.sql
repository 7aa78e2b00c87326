-- Stores the state of an operation after a step, and adds an entry to the audit log when it ends
-- (finish_erasure has written that of an erasure). The caller has locked the row. Called by
-- advance_operations.
create or replace function jobforge_private.save_operation(p_operation jobforge.operations)
returns void
language plpgsql
as $$
declare
    v_has_ended boolean := p_operation.state in ('done', 'failed');
begin
    update jobforge.operations as o
       set state = p_operation.state, reason = p_operation.reason, due_at = p_operation.due_at,
           started_at = p_operation.started_at, stepped_at = p_operation.stepped_at,
           finished_at = case when v_has_ended then jobforge_private.now() end,
           below = p_operation.below, tokens = p_operation.tokens,
           canaries = p_operation.canaries, done = p_operation.done,
           skipped = p_operation.skipped,
           progress = p_operation.progress,
           matched = case when p_operation.kind = 'erase' and v_has_ended then p_operation.done
                          else greatest(o.matched, p_operation.done + p_operation.skipped) end
     where o.tenant_id = p_operation.tenant_id and o.id = p_operation.id;
    if v_has_ended and p_operation.kind <> 'erase' then
        perform jobforge_private.audit(
            p_operation.tenant_id, 'operation.end', p_operation.id::text,
            jsonb_build_object(
                'kind', p_operation.kind, 'state', p_operation.state, 'done', p_operation.done,
                'skipped', p_operation.skipped, 'reason', p_operation.reason,
                'created_by', p_operation.created_by));
    end if;
end $$;
