-- Applications call this to start an action on all jobs of a tenant that match a filter now:
-- cancel, retry, redrive or discard (find_operation_jobs). Only stores the operation and how many
-- jobs match (count_jobs); advance_operations runs it in steps. Options: reason; for retry and
-- redrive, attempts (the new allowance); for redrive, canary (how many jobs to retry first) and
-- rate (jobs per second). Returns the operation's ID. Raises JF001, JF002, JF006, JF014.
create or replace function jobforge.start_operation(
    p_kind text,
    p_filter jsonb,
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_id uuid := jobforge_private.uuid7();
begin
    perform jobforge_private.check_operation(p_kind, p_filter, p_options);
    insert into jobforge.operations (
           tenant_id, id, created_at, due_at, matched, kind, created_by, filter, options)
    values (v_tenant, v_id, v_now, v_now, jobforge.count_jobs(p_kind, p_filter, p_tenant_id),
            p_kind, jobforge_private.actor(), p_filter, p_options);
    perform jobforge_private.audit(v_tenant, 'operation.start', v_id::text,
        jsonb_build_object('kind', p_kind, 'filter', p_filter, 'options', p_options));
    return v_id;
end $$;
