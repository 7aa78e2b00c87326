-- Ends leases: the only way out of state running, for workers (complete_jobs) and for the reaper.
-- Each outcome names its job, worker and lease; a row changes only if it is running and all three
-- match (fencing).
--   succeeded                    -> succeeded (moved to finished_jobs)
--   canceled, or a cancel was requested and the attempt did not succeed -> canceled (moved)
--   failed, timed_out, crashed, lease_lost -> scheduled after its backoff or retry_in_s; dead if
--                                   `final` is set or the allowance is used up
--   snoozed                      -> scheduled at run_at or after retry_in_s, attempt not counted
--   released                     -> queued again immediately, attempt not counted
-- Every lease that ends is recorded as an attempt. Returns the jobs that matched. Runs the
-- follow-up work in the same transaction (follow_up), once for all jobs, in one order of locks.
-- With app.tenant_id set, jobs of other tenants do not match. Deletes in order of (tenant_id, id).
-- With p_are_held, the caller has locked the rows in an earlier statement: the following statements
-- must agree on whether a cancel was requested, and must not wait for locks. Without it, for
-- outcomes that are all successes, takes only jobs that no other transaction has locked, as
-- move_succeeded_jobs does.
create or replace function jobforge_private.settle_jobs(
    p_worker_id uuid,
    p_outcomes jsonb,
    p_are_held boolean default true
) returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_listening uuid[] := '{}';  -- tenants with a webhook endpoint
    v_part record;
    v_settled jobforge.settled_jobs;
    v_ended jobforge.ended_job[];
begin
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(array(
            select (o ->> 'tenant_id')::uuid from jsonb_array_elements(p_outcomes) as o));
    end if;
    v_part := jobforge_private.settle_finished_jobs(
        p_worker_id, p_outcomes, v_now, v_listening, p_are_held);
    v_settled := v_part.settled;
    v_ended := v_part.ended;
    return query
    select * from unnest(v_settled.tenants, v_settled.jobs, v_settled.leases, v_settled.states);

    -- If the rows are not locked, all outcomes are successes.
    if p_are_held
       and coalesce(cardinality(v_settled.jobs), 0) < jsonb_array_length(p_outcomes) then
        v_part := jobforge_private.settle_unfinished_jobs(
            p_worker_id, p_outcomes, v_now, v_listening);
        v_settled := v_part.settled;
        v_ended := v_ended || v_part.ended;
        return query
        select * from unnest(v_settled.tenants, v_settled.jobs, v_settled.leases, v_settled.states);
    end if;
    if v_ended is not null then
        perform jobforge_private.follow_up(v_ended);
    end if;
end $$;
