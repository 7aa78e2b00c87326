-- Cancels the unfinished jobs of a workflow or batch. Locks jobs that are not blocked in order of
-- ID, then blocked ones, then the workflow and its inner workflows. If jobs were added in the
-- meantime, releases all locks and starts again; after five rounds it locks new jobs in any order.
-- Called by cancel_workflow and cancel_batch.
create or replace function jobforge_private.cancel_nodes(
    p_tenant_id uuid,
    p_id uuid,
    p_kind text,
    p_reason text
) returns text
language plpgsql
as $$
declare
    v_reason text := coalesce(left(p_reason, 1000), p_kind || ' was canceled');
    v_rows tid[];
    v_workflow jobforge.workflows;
    v_known uuid[];
begin
    select * into v_workflow from jobforge.workflows as w
     where w.tenant_id = p_tenant_id and w.id = p_id and w.kind = p_kind;
    if not found then
        perform jobforge_private.refuse('JF004', format('%s not found', initcap(p_kind)),
            jsonb_build_object('id', p_id));
    elsif v_workflow.finished_at is not null and v_workflow.state <> 'canceled' then
        perform jobforge_private.refuse('JF005', format('The %s is finished', p_kind),
            jsonb_build_object('id', p_id, 'state', v_workflow.state));
    end if;
    for v_turn in 1 .. 5 loop
        begin
            v_known := jobforge_private.nodes_to_cancel(p_tenant_id, p_id);
            perform jobforge_private.lock_jobs(p_tenant_id, v_known);
            perform jobforge_private.lock_workflows_within(p_tenant_id, p_id);
            exit when jobforge_private.nodes_to_cancel(p_tenant_id, p_id) <@ v_known;
            raise sqlstate 'JF099';
        exception
            when sqlstate 'JF099' then null;  -- not JF000, which would catch all JF codes
        end;
    end loop;
    loop
        v_rows := jobforge_private.lock_jobs(
            p_tenant_id, jobforge_private.nodes_to_cancel(p_tenant_id, p_id));
        exit when v_rows = '{}';
        perform jobforge_private.request_cancel(v_rows, v_reason);
        perform jobforge_private.cancel_rows(v_rows, v_reason);
    end loop;
    update jobforge.workflows as w
       set cancel_requested_at = coalesce(w.cancel_requested_at, jobforge_private.now()),
           is_open = false
     where w.tenant_id = p_tenant_id and w.id = p_id;
    perform jobforge_private.advance_workflow(p_tenant_id, p_id);
    perform jobforge_private.audit(p_tenant_id, p_kind || '.cancel', p_id::text,
        jsonb_build_object('reason', p_reason));
    return (select case when w.finished_at is null then 'canceling' else w.state end
              from jobforge.workflows as w
             where w.tenant_id = p_tenant_id and w.id = p_id);
end $$;
