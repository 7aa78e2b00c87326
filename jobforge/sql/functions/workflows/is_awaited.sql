-- Whether a blocked job has to wait because of this row: its parent has not ended, or did not
-- succeed, and the job's policy is not to run all the same. The transaction that ends a parent
-- deletes the row or keeps it for that reason; otherwise the row is stale, left by an older release
-- or by a restore. A parent of which nothing is left counts as one that did not succeed: retention
-- cancels the jobs that wait for it (lock_orphaned_jobs). Called by free_blocked_jobs and
-- explain_job, which make the planner use indexes.
create or replace function jobforge_private.is_awaited(a jobforge.awaited_jobs) returns boolean
language plpgsql stable
as $$
begin
    return exists (select from jobforge.jobs as j
                    where j.tenant_id = a.tenant_id and j.id = a.job_id)
        or a.on_parent_failure <> 'run'
           and not exists (select from jobforge.finished_jobs as f
                            where f.tenant_id = a.tenant_id and f.id = a.job_id
                              and f.finished_at >= jobforge_private.earliest_history(a.job_id)
                              and f.state = 'succeeded');
end $$;
