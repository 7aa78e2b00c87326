-- Applications call this: returns why a job is not running, and what would change that, one row per
-- reason, the decisive one first. Codes: docs/explain.md. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.explain_job(p_job_id uuid, p_tenant_id uuid default null)
returns table (code text, message text, remedy text, detail jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_job jobforge.all_jobs;
begin
    select * into v_job from jobforge.all_jobs as a
     where a.tenant_id = v_tenant and a.id = p_job_id limit 1;
    if not found then
        perform jobforge_private.refuse('JF004', 'Job not found',
            jsonb_build_object('job_id', p_job_id));
    end if;
    if v_job.state in ('succeeded', 'canceled', 'dead') then
        return query select * from jobforge_private.explain_finished(v_job);
    elsif v_job.state = 'running' then
        return query select * from jobforge_private.explain_running(v_job, v_now);
    elsif v_job.state = 'blocked'
          and not exists (select from jobforge.awaited_jobs as w
                           where w.tenant_id = v_tenant and w.waiter_id = p_job_id
                             and jobforge_private.is_awaited(w)) then
        return query select
            'freed_soon', 'All parents are finished. Maintenance releases the job within a minute.',
            'Wait. If no scheduler is live, start a worker: each worker with a database runs one.',
            '{}'::jsonb;
    else
        return query select * from jobforge_private.explain_wait(v_job);
        -- A scheduled job with queued_at was deferred, because no worker serves it.
        if not found and v_job.state = 'scheduled' and v_job.queued_at is null then
            return query select
                case when v_job.error is null then 'scheduled' else 'backing_off' end,
                format('%s %s.',
                       case when v_job.error is null then 'Scheduled for'
                            else format('Attempt %s failed; the next attempt starts at',
                                        v_job.attempt) end,
                       v_job.run_at),
                'Reschedule the job to run it now.',
                jsonb_build_object('run_at', v_job.run_at, 'attempt', v_job.attempt,
                                   'error', jobforge_private.readable(v_job.error));
        elsif not found and v_job.state = 'blocked' then
            return query select * from jobforge_private.explain_parents(v_job);
        end if;
        return query select * from jobforge_private.explain_pauses(v_job);
        return query select * from jobforge_private.explain_limits(v_job, v_now);
        return query select * from jobforge_private.explain_workers(v_job, v_now);
        if v_job.state = 'queued' then
            return query select * from jobforge_private.explain_ready(v_job, v_now);
        end if;
    end if;
end $$;
