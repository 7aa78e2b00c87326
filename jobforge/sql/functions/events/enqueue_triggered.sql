-- As enqueue_jobs, for jobs that come of a trigger: p_source says of which kind, p_refs of what.
-- Called by try_enqueue_triggered. All or nothing; raises what enqueue_jobs raises.
--
-- What differs from job to job of a trigger was made by us or checked with its event, and is left
-- out of the check: that is made once for jobs with the same options, and took half of the time.
create or replace function jobforge_private.enqueue_triggered(
    p_tenant_id uuid,
    p_jobs jsonb,
    p_source text,
    p_refs text[]
) returns table (index integer, job_id uuid, status text)
language plpgsql
as $$
declare
    v_first_id uuid := jobforge_private.uuid7();
    v_jobs jsonb;
    v_held integer[];
    v_holders uuid[];
    v_statuses text[];
begin
    perform jobforge_private.check_jobs(
        (select jsonb_agg(j.job - '{key,correlation_id,traceparent}'::text[] order by j.n)
           from jsonb_array_elements(p_jobs) with ordinality as j(job, n)));
    select coalesce(array_agg(h.index), '{}'), array_agg(h.job_id), array_agg(h.status)
      into v_held, v_holders, v_statuses
      from jobforge_private.reserve_keys(p_tenant_id, p_jobs, v_first_id) as h;
    select jsonb_agg(j.job || jsonb_build_object('source', p_source, 'source_ref', p_refs[j.n])
                     order by j.n)
      into v_jobs
      from jsonb_array_elements(p_jobs) with ordinality as j(job, n);
    perform jobforge_private.insert_jobs(p_tenant_id, v_jobs, v_first_id, v_held);
    return query
    select i - 1, coalesce(h.job_id, jobforge_private.nth_id(v_first_id, i)),
           coalesce(h.status, 'created')
      from generate_series(1, jsonb_array_length(p_jobs)) as i
      left join unnest(v_held, v_holders, v_statuses) as h(index, job_id, status) on h.index = i
     order by i;
end $$;
