-- Enqueues jobs of triggers, as enqueue_jobs does. p_source is the kind of trigger, p_refs what
-- each job comes from. Inserts all jobs or none. Called by try_enqueue_triggered. Raises what
-- enqueue_jobs raises.
--
-- Fields that differ between the jobs of a trigger were generated or were checked with the event,
-- so they are left out of the check: jobs with the same options are checked once, and the check
-- took half of the time.
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
