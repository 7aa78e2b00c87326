-- Applications call this to cancel the jobs of a tenant that match a filter (matching_jobs),
-- p_limit at most. Returns how many; call again until it returns 0. With p_dry_run it only counts,
-- up to p_limit. Finished jobs never match. Waits for settles in progress. Locks as lock_jobs does.
-- Raises JF001, JF002, JF006, JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.cancel_jobs(
    p_filter jsonb,
    p_reason text default null,
    p_limit integer default 1000,
    p_dry_run boolean default false,
    p_tenant_id uuid default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_rows tid[];
    v_canceled bigint;
    v_requested bigint;
begin
    perform jobforge_private.require_read_committed('cancel_jobs');
    perform jobforge_private.check_limit(p_limit, 10000);
    perform jobforge_private.read_filter(p_filter);
    if p_dry_run then
        return (select count(*)
                  from jobforge_private.matching_jobs(v_tenant, p_filter, p_limit, null, true));
    end if;
    -- Lock all jobs first, in order; then act on running and other jobs separately.
    v_rows := jobforge_private.lock_jobs(v_tenant, array(
        select jobforge_private.matching_jobs(v_tenant, p_filter, p_limit, null, true)));
    v_requested := jobforge_private.request_cancel(v_rows, left(p_reason, 1000));
    v_canceled := v_requested + jobforge_private.cancel_rows(v_rows, left(p_reason, 1000));
    perform jobforge_private.audit(v_tenant, 'jobs.cancel', null,
        jsonb_build_object('filter', p_filter, 'reason', p_reason, 'jobs', v_canceled));
    return v_canceled;
end $$;
