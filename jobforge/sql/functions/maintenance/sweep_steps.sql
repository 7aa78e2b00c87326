-- Deletes steps stored before p_before of jobs that cannot run any more, p_limit at most. Returns
-- how many. Called by sweep.
create or replace function jobforge_private.sweep_steps(p_before timestamptz, p_limit integer)
returns bigint
language plpgsql
as $$
declare
    v_swept bigint;
begin
    delete from jobforge.steps as s
     where s.ctid = any (array(
           select e.ctid
             from jobforge.steps as e
            where e.at < p_before
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.id = e.job_id)
            limit p_limit for update skip locked));
    get diagnostics v_swept = row_count;
    return v_swept;
end $$;
