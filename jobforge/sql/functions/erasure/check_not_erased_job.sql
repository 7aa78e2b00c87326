-- Refuses to retry an erased job. Called by retry_job and retry_workflow. Raises JF005.
create or replace function jobforge_private.check_not_erased_job(p_job_id uuid, p_flags smallint)
returns void
language plpgsql immutable
as $$
begin
    if p_flags & 8 = 8 then
        perform jobforge_private.refuse('JF005', 'An erased job cannot be retried',
            jsonb_build_object('job_id', p_job_id));
    end if;
end $$;
