-- Applications call this to cancel the unfinished jobs of a batch, and close it. Returns and raises
-- what cancel_workflow does.
create or replace function jobforge.cancel_batch(
    p_id uuid,
    p_reason text default null,
    p_tenant_id uuid default null
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    perform jobforge_private.require_read_committed('cancel_batch');
    return jobforge_private.cancel_nodes(jobforge_private.require_tenant(p_tenant_id), p_id,
        'batch', p_reason);
end $$;
