-- Runs a job again. A dead one is revived in place: its attempt numbers go on, and it gets its
-- allowance again or p_attempts more. One that succeeded or was canceled is final: a new job is
-- made from it (retry_of). So it is with another payload: what a job was asked to do stays on
-- record, and a dead one is put away as canceled. One that waits for its backoff runs now.
-- Answers the id of the job that will run. Raises JF001, JF002, JF004, JF005 (running, queued,
-- blocked, erased, or after a parent that did not succeed), JF006 to JF010.
-- Raises JF012 outside READ COMMITTED. Locks the job, and with another payload also its relatives
-- (lock_relatives); then workflows, inner ones first, and their nodes.
create or replace function jobforge.retry_job(
    p_job_id uuid,
    p_payload jsonb default null,
    p_attempts integer default null,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_job jobforge.jobs;
    v_old jobforge.finished_jobs;
    v_row tid[];
    v_id uuid;
    v_parent uuid;
    v_parents jsonb;
    v_jobs jsonb;
begin
    perform jobforge_private.require_read_committed('retry_job');
    if p_attempts is not null and p_attempts not between 1 and 1000 then
        perform jobforge_private.refuse('JF002', 'attempts must lie between 1 and 1000',
            '{"field": "attempts"}');
    end if;
    if p_payload is not null then
        perform jobforge_private.check_job_changes(jsonb_build_object('payload', p_payload));
    end if;

    if p_payload is not null then
        perform jobforge_private.lock_relatives(v_tenant, array[p_job_id]);
    end if;
    select j.* into v_job from jobforge.jobs as j
     where j.tenant_id = v_tenant and j.id = p_job_id
       for update;
    if found then
        perform jobforge_private.check_not_erased_job(p_job_id, v_job.flags);
        if v_job.state = 'scheduled' and v_job.attempt > 0 and p_payload is null then
            perform jobforge.edit_job(p_job_id, '{"run_at": null}', v_tenant);
        elsif v_job.state = 'dead' then
            v_row := array(select j.ctid from jobforge.jobs as j
                            where j.tenant_id = v_tenant and j.id = p_job_id);
            if p_payload is null then
                perform jobforge_private.revive_rows(v_row, p_attempts);
            else
                perform jobforge_private.cancel_rows(v_row, 'retried with another payload');
            end if;
        else
            perform jobforge_private.refuse_job_action(v_tenant, p_job_id, 'retried');
        end if;
    end if;
    v_id := p_job_id;
    if v_job.id is null or p_payload is not null then
        select f.* into v_old from jobforge.finished_jobs as f
         where f.tenant_id = v_tenant and f.id = p_job_id;
        if not found then
            perform jobforge_private.refuse_job_action(v_tenant, p_job_id, 'retried');
        end if;
        perform jobforge_private.check_not_erased_job(p_job_id, v_old.flags);
        select d.parent_id into v_parent
          from jobforge.dependencies as d
          join jobforge.all_jobs as a on a.tenant_id = v_tenant and a.id = d.parent_id
         where d.tenant_id = v_tenant and d.child_id = p_job_id
           and d.on_parent_failure = 'cancel' and a.state in ('dead', 'canceled')
         limit 1;
        if found then
            perform jobforge_private.refuse('JF005',
                'a parent is dead or canceled: retry that first',
                jsonb_build_object('job_id', v_parent));
        end if;
        v_id := jobforge_private.nth_id(jobforge_private.uuid7(), 0);
        v_parents := (select to_jsonb(array_agg(d.parent_id)) from jobforge.dependencies as d
                       where d.tenant_id = v_tenant and d.child_id = p_job_id);
        v_jobs := jsonb_build_array(
            jsonb_strip_nulls(jsonb_build_object(
                'definition', v_old.definition, 'version', v_old.version, 'queue', v_old.queue,
                'priority', v_old.priority,
                'max_attempts', coalesce(p_attempts, v_old.allowance, v_old.max_attempts),
                'timeout_s', v_old.timeout_s, 'limit_key', v_old.limit_key,
                'tags', to_jsonb(v_old.tags),
                'correlation_id', v_old.correlation_id, 'traceparent', v_old.traceparent,
                'source', v_old.source, 'source_ref', v_old.source_ref, 'retry_of', v_old.id,
                -- A payload that lies elsewhere is kept for as long as a job names it.
                'artifact_ref', case when p_payload is null and v_old.payload ? '$artifact'
                                     then v_old.artifact_ref end,
                'created_by', jobforge_private.actor(), 'after', v_parents, 'on_parent_failure', (
                    select d.on_parent_failure from jobforge.dependencies as d
                     where d.tenant_id = v_tenant and d.child_id = p_job_id limit 1)))
            || jsonb_build_object('payload', coalesce(p_payload, v_old.payload)));
        perform jobforge_private.insert_jobs(v_tenant, v_jobs, v_id);
        if v_parents is not null then
            perform jobforge_private.link_parents(v_tenant, v_jobs, v_id);
        end if;
        v_id := jobforge_private.nth_id(v_id, 1);
        if v_old.flags & 2 = 2 then
            perform jobforge_private.replace_node_jobs(v_tenant, array[p_job_id], array[v_id]);
        end if;
    end if;
    perform jobforge_private.record_job_event(v_tenant, p_job_id, 'retried',
        jsonb_build_object('job_id', v_id));
    perform jobforge_private.audit(v_tenant, 'job.retry', p_job_id::text,
        jsonb_build_object('job_id', v_id));
    return v_id;
end $$;
