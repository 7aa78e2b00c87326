-- Locks a running job for a function that its own worker calls, so that it cannot finish in the
-- meantime. Raises JF003 if the lease is not held, and JF005 if a cancel was requested.
create or replace function jobforge_private.lock_leased_job(
    p_tenant_id uuid,
    p_worker_id uuid,
    p_job_id uuid,
    p_lease bigint
) returns void
language plpgsql
as $$
declare
    v_asked_at timestamptz;
begin
    select j.cancel_requested_at into v_asked_at
      from jobforge.jobs as j
     where j.tenant_id = p_tenant_id and j.id = p_job_id and j.state || '' = 'running'
       and j.worker_id = p_worker_id and j.lease = p_lease
       for update;
    if not found then
        perform jobforge_private.refuse('JF003', 'The lease of this job is lost',
            jsonb_build_object('job_id', p_job_id));
    elsif v_asked_at is not null then
        perform jobforge_private.refuse('JF005', 'The job was asked to stop',
            jsonb_build_object('job_id', p_job_id));
    end if;
end $$;
