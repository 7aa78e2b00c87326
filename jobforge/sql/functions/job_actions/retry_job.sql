-- Applications call this to run a job again. Returns the ID of the job that will run.
--   dead                    revived: attempt numbers continue, and it gets p_attempts more attempts
--                           (default: its allowance)
--   succeeded or canceled   final: a new job is created from it (retry_finished_job)
--   waits for its backoff   runs now
-- With p_payload, a dead job is canceled and a new job is created with that payload, because the
-- original payload must stay on record. Locks the job, and with a payload also its relatives
-- (lock_relatives); then workflows, inner ones first, and their nodes. Raises JF001, JF002, JF004,
-- JF005 (running, queued, blocked, erased, or a parent did not succeed), JF006 to JF010, JF014, and
-- JF012 outside READ COMMITTED.
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
    v_row tid[];
    v_id uuid;
begin
    perform jobforge_private.require_read_committed('retry_job');
    if p_attempts is not null and p_attempts not between 1 and 1000 then
        perform jobforge_private.refuse('JF002', 'attempts must be between 1 and 1000',
            '{"field": "attempts"}');
    end if;
    if p_payload is not null then
        perform jobforge_private.check_job_changes(jsonb_build_object('payload', p_payload));
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
        v_id := jobforge_private.retry_finished_job(v_tenant, p_job_id, p_payload, p_attempts);
    end if;
    perform jobforge_private.record_job_event(v_tenant, p_job_id, 'retried',
        jsonb_build_object('job_id', v_id));
    perform jobforge_private.audit(v_tenant, 'job.retry', p_job_id::text,
        jsonb_build_object('job_id', v_id));
    return v_id;
end $$;
