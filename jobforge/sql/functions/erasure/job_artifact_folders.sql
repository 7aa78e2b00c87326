-- Returns the artifact folders that an erased job may have filled and that no other job needs: its
-- own folder of each day on which it ran, and one day earlier and later for clocks that differ, and
-- the folders that artifact_ref names. They need not exist. Called by erase_job.
create or replace function jobforge_private.job_artifact_folders(p_tenant_id uuid, p_job_id uuid)
returns text[]
language sql stable
as $$
    with ran as (
        select a.started_at, a.ended_at from jobforge.attempts as a
         where a.tenant_id = p_tenant_id and a.job_id = p_job_id
        union all
        select j.started_at, j.finished_at from jobforge.all_jobs as j
         where j.tenant_id = p_tenant_id and j.id = p_job_id
    ), named as (
        select format('%s/%s/%s', p_tenant_id, d.day::date, p_job_id) as folder
          from ran as r
         cross join lateral generate_series(
               (r.started_at at time zone 'UTC')::date - 1,
               (r.ended_at at time zone 'UTC')::date + 1, interval '1 day') as d(day)
        union
        select substring(j.artifact_ref from '^artifact:(.*)/[^/]*$') from jobforge.all_jobs as j
         where j.tenant_id = p_tenant_id and j.id = p_job_id and j.artifact_ref is not null
    )
    select array(
        select u.folder
          from jobforge.unused_artifacts(array(
                   select n.folder from named as n order by n.folder desc limit 1000)) as u)
$$;
