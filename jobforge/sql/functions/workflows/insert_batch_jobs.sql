-- Enqueues jobs for an unfinished batch. Locks the batch after the jobs were inserted, because jobs
-- come before workflows in the lock order. Called by create_batch and add_to_batch. Raises what
-- enqueue_jobs raises, and JF005 if the batch has finished.
create or replace function jobforge_private.insert_batch_jobs(
    p_tenant_id uuid,
    p_batch_id uuid,
    p_jobs jsonb
) returns table (index integer, job_id uuid, status text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_first_id uuid := jobforge_private.uuid7();
    v_batch jobforge.workflows;
    v_jobs jsonb;
    v_held integer[] := '{}';
    v_holders uuid[];
    v_statuses text[];
begin
    perform jobforge_private.check_jobs(p_jobs);
    select * into v_batch from jobforge.workflows as w
     where w.tenant_id = p_tenant_id and w.id = p_batch_id;
    v_jobs := (
        select coalesce(jsonb_agg(
                   jsonb_strip_nulls(jsonb_build_object('correlation_id', v_batch.correlation_id))
                   || e.job || jsonb_build_object('flags', 2, 'source', 'workflow',
                                                  'source_ref', p_batch_id)
                   order by e.place), '[]')
          from jsonb_array_elements(p_jobs) with ordinality as e(job, place));
    if jsonb_path_exists(v_jobs, '$[*].key') then
        select coalesce(array_agg(h.index), '{}'), array_agg(h.job_id), array_agg(h.status)
          into v_held, v_holders, v_statuses
          from jobforge_private.reserve_keys(p_tenant_id, v_jobs, v_first_id) as h;
    end if;
    perform jobforge_private.insert_jobs(p_tenant_id, v_jobs, v_first_id, v_held);
    if jsonb_path_exists(v_jobs, '$[*].after') then
        perform jobforge_private.link_parents(p_tenant_id, v_jobs, v_first_id, v_held);
    end if;
    v_batch := jobforge_private.lock_workflow(p_tenant_id, p_batch_id, 'batch');
    if v_batch.finished_at is not null then
        perform jobforge_private.refuse('JF005', 'The batch is finished',
            jsonb_build_object('id', p_batch_id, 'state', v_batch.state));
    end if;
    insert into jobforge.workflow_jobs (tenant_id, workflow_id, job_id, position)
    select p_tenant_id, p_batch_id, jobforge_private.nth_id(v_first_id, i),
           v_batch.size + row_number() over (order by i)
      from generate_series(1, jsonb_array_length(v_jobs)) as i
     where i <> all (v_held);
    update jobforge.workflows as w
       set size = w.size + jsonb_array_length(v_jobs) - cardinality(v_held)
     where w.tenant_id = p_tenant_id and w.id = p_batch_id;
    return query
    select i - 1, coalesce(h.job_id, jobforge_private.nth_id(v_first_id, i)),
           coalesce(h.status, 'created')
      from generate_series(1, jsonb_array_length(v_jobs)) as i
      left join unnest(v_held, v_holders, v_statuses) as h(index, job_id, status) on h.index = i
     order by i;
end $$;
