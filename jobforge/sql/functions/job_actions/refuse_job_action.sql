-- Raises an error when an action found no job in a suitable state: JF004 if the tenant has no such
-- job, else JF005 with the job's state.
create or replace function jobforge_private.refuse_job_action(
    p_tenant_id uuid,
    p_job_id uuid,
    p_action text
) returns void
language plpgsql
as $$
declare
    v_state text;
begin
    select a.state into v_state from jobforge.all_jobs as a
     where a.tenant_id = p_tenant_id and a.id = p_job_id;
    if v_state is null then
        perform jobforge_private.refuse('JF004', 'Job not found',
            jsonb_build_object('job_id', p_job_id));
    end if;
    perform jobforge_private.refuse('JF005', format('A %s job cannot be %s', v_state, p_action),
        jsonb_build_object('job_id', p_job_id, 'state', v_state));
end $$;
