-- Returns a workflow or batch as users see it. `counts` has the number of its jobs by outcome, once
-- all have finished. Values beyond p_text bytes of text are left out (readable).
create or replace function jobforge_private.show_workflow(
    p_workflow jobforge.workflows,
    p_text integer default 16777216
) returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'id', p_workflow.id, 'name', p_workflow.name, 'parent_id', p_workflow.parent_id,
        'node', p_workflow.node,
        'state', case when p_workflow.finished_at is null
                       and p_workflow.cancel_requested_at is not null
                      then 'canceling' else p_workflow.state end,
        'size', p_workflow.size, 'is_open', p_workflow.is_open,
        'counts', jobforge_private.readable(p_workflow.counts, p_text),
        'input', jobforge_private.readable(p_workflow.input, p_text),
        'correlation_id', p_workflow.correlation_id,
        'callbacks', jobforge_private.readable(p_workflow.callbacks, p_text), 'called',
        to_jsonb(p_workflow.called), 'created_by', p_workflow.created_by, 'created_at',
        p_workflow.created_at, 'finished_at', p_workflow.finished_at)
$$;
