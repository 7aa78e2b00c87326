-- Begins an action on all jobs of a tenant that match a filter, as they are now: cancel, retry,
-- redrive or discard (see find_operation_jobs). Only writes it down, with how many match (as
-- count_jobs counts); advance_operations does it, in steps. Options: reason; of retry and redrive,
-- attempts (their new allowance); of redrive, canary (how many to try first) and rate (jobs per
-- second). Answers its id. Raises JF001, JF002, JF006.
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
