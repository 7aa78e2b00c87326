-- Creates a new job from a finished one, which is final: with the same settings and parents, and
-- with
-- p_payload and p_attempts if they are given. Returns the ID of the new job, which replaces the old
-- one in its workflow and as a parent of jobs that have not run. The caller has locked the job's
-- relatives if it was not finished before. Called by retry_job. Locks workflows, inner ones first,
-- and their nodes. Raises JF004, JF005 (not finished, erased, or a parent did not succeed), JF008
-- to JF010, JF014.
create or replace function jobforge_private.retry_finished_job(
    p_tenant_id uuid,
    p_job_id uuid,
    p_payload jsonb,
    p_attempts integer
) returns uuid
language plpgsql
as $$
declare
    v_old jobforge.finished_jobs;
    v_id uuid;
    v_parent uuid;
    v_parents jsonb;
    v_jobs jsonb;
begin
    select f.* into v_old from jobforge.finished_jobs as f
     where f.tenant_id = p_tenant_id and f.id = p_job_id;
    if not found then
        perform jobforge_private.refuse_job_action(p_tenant_id, p_job_id, 'retried');
    end if;
    perform jobforge_private.check_not_erased_job(p_job_id, v_old.flags);
    select d.parent_id into v_parent
      from jobforge.dependencies as d
      join jobforge.all_jobs as a on a.tenant_id = p_tenant_id and a.id = d.parent_id
     where d.tenant_id = p_tenant_id and d.child_id = p_job_id
       and d.on_parent_failure = 'cancel' and a.state in ('dead', 'canceled')
     limit 1;
    if found then
        perform jobforge_private.refuse('JF005',
            'A parent is dead or canceled; retry the parent first',
            jsonb_build_object('job_id', v_parent));
    end if;
    v_id := jobforge_private.nth_id(jobforge_private.uuid7(), 0);
    v_parents := (select to_jsonb(array_agg(d.parent_id)) from jobforge.dependencies as d
                   where d.tenant_id = p_tenant_id and d.child_id = p_job_id);
    v_jobs := jsonb_build_array(
        jsonb_strip_nulls(jsonb_build_object(
            'definition', v_old.definition, 'version', v_old.version, 'queue', v_old.queue,
            'priority', v_old.priority,
            'max_attempts', coalesce(p_attempts, v_old.allowance, v_old.max_attempts),
            'timeout_s', v_old.timeout_s, 'limit_key', v_old.limit_key,
            'tags', to_jsonb(v_old.tags),
            'correlation_id', v_old.correlation_id, 'traceparent', v_old.traceparent,
            'source', v_old.source, 'source_ref', v_old.source_ref, 'retry_of', v_old.id,
            -- An artifact with the payload is kept as long as a job names it.
            'artifact_ref', case when p_payload is null and v_old.payload ? '$artifact'
                                 then v_old.artifact_ref end,
            'created_by', jobforge_private.actor(), 'after', v_parents, 'on_parent_failure', (
                select d.on_parent_failure from jobforge.dependencies as d
                 where d.tenant_id = p_tenant_id and d.child_id = p_job_id limit 1)))
        || jsonb_build_object('payload', coalesce(p_payload, v_old.payload)));
    perform jobforge_private.insert_jobs(p_tenant_id, v_jobs, v_id);
    if v_parents is not null then
        perform jobforge_private.link_parents(p_tenant_id, v_jobs, v_id);
    end if;
    v_id := jobforge_private.nth_id(v_id, 1);
    if v_old.flags & 2 = 2 then
        perform jobforge_private.replace_node_jobs(p_tenant_id, array[p_job_id], array[v_id]);
    end if;
    return v_id;
end $$;
