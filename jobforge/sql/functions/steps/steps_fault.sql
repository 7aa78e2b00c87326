-- Returns the reason why the steps of a claimed job cannot be loaded, or null if they can. Uses a
-- subtransaction, so that the claim of other jobs continues. Locks the job. Called by
-- claim_readable_jobs.
create or replace function jobforge_private.steps_fault(
    p_worker_id uuid,
    p_tenant_id uuid,
    p_job_id uuid,
    p_lease bigint
) returns text
language plpgsql
as $$
begin
    perform octet_length(jobforge.load_steps(p_worker_id, p_tenant_id, p_job_id, p_lease)::text);
    return null;
exception
    when program_limit_exceeded or out_of_memory then return sqlerrm;
end $$;
