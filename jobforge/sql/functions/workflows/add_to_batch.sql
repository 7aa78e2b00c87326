-- Applications call this to enqueue more jobs for a batch, also while it runs: from anywhere while
-- it is open, or from one of its jobs. Returns what enqueue_jobs returns. Waits for a transaction
-- that finishes the batch or adds to it. Raises what enqueue_jobs raises, JF004, and JF005 if the
-- batch has finished.
create or replace function jobforge.add_to_batch(
    p_id uuid,
    p_jobs jsonb,
    p_tenant_id uuid default null
) returns table (index integer, job_id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    if not exists (select from jobforge.workflows as w
                    where w.tenant_id = v_tenant and w.id = p_id and w.kind = 'batch') then
        perform jobforge_private.refuse('JF004', 'Batch not found', jsonb_build_object('id', p_id));
    end if;
    return query
    select a.index, a.job_id, a.status
      from jobforge_private.insert_batch_jobs(v_tenant, p_id, p_jobs) as a;
end $$;
