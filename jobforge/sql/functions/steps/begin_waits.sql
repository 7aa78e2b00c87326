-- Registers the waits of jobs that were just settled as snoozed, in the same transaction and only
-- for those: a wait exists if and only if its attempt has ended. Stores the attempts of gathers,
-- p_gathered. Returns the states of the jobs, `blocked` for those that wait for other jobs. Relies
-- on the locks of its caller, and locks the jobs that a gather waits for. Called by
-- settle_unfinished_jobs.
create or replace function jobforge_private.begin_waits(
    p_settled jobforge.settled_jobs,
    p_outcomes jsonb,
    p_now timestamptz,
    p_gathered jobforge.attempts[]
) returns text[]
language plpgsql
set enable_hashjoin = on
as $$
declare
    v_states text[] := p_settled.states;
    v_wait record;
    v_attempt jobforge.attempts;
begin
    for v_wait in
        select s.tenant_id, s.job_id, s.lease, s.place, w.kind, w.name, w.index,
               coalesce(w.match, '{}') as match, w.jobs, to_timestamp(w.since) as look_back_to
          from unnest(p_settled.tenants, p_settled.jobs, p_settled.leases, p_settled.states)
               with ordinality as s(tenant_id, job_id, lease, state, place)
          join jsonb_to_recordset(p_outcomes) as o(
               tenant_id uuid, job_id uuid, lease bigint, outcome text, wait jsonb)
            on o.tenant_id = s.tenant_id and o.job_id = s.job_id and o.lease = s.lease
         cross join lateral jsonb_to_record(o.wait) as w(
               kind text, name text, index integer, match jsonb, jobs uuid[],
               since double precision)
         where s.state = 'scheduled' and o.outcome = 'snoozed' and o.wait is not null
         order by s.tenant_id, s.job_id
    loop
        update jobforge.jobs as j
           set flags = j.flags | 4,
               -- The attempt reached the wait, so it did not fail.
               error = null,
               fingerprint = null,
               state = case when v_wait.kind = 'gather' then 'blocked' else j.state end
         where j.tenant_id = v_wait.tenant_id and j.id = v_wait.job_id
           and j.state || '' = 'scheduled' and j.lease = v_wait.lease;
        -- A worker that did not call load_steps has left its last wait.
        delete from jobforge.waits as w
         where w.tenant_id = v_wait.tenant_id and w.job_id = v_wait.job_id;
        insert into jobforge.waits (
               tenant_id, job_id, lease, since, expires_at, look_back_to, index, kind, name, match,
               jobs)
        select v_wait.tenant_id, v_wait.job_id, v_wait.lease, p_now,
               case when v_wait.kind <> 'gather' then j.run_at end,
               case when v_wait.kind = 'event'
                    then coalesce(v_wait.look_back_to, j.created_at) end,
               v_wait.index, v_wait.kind, v_wait.name, v_wait.match, v_wait.jobs
          from jobforge.jobs as j
         where j.tenant_id = v_wait.tenant_id and j.id = v_wait.job_id;
        if v_wait.kind = 'event' then
            -- Schedulers check whether the event was already emitted (resume_by_past_events).
            perform jobforge_private.wake_scheduler();
        elsif v_wait.kind = 'gather' then
            v_states[v_wait.place] := 'blocked';
            if jobforge_private.wait_for_jobs(v_wait.tenant_id, v_wait.job_id, v_wait.jobs) = 0 then
                -- All gathered jobs have finished: the job is due, and the next claim promotes it.
                v_states[v_wait.place] := 'scheduled';
                update jobforge.jobs as j
                   set state = 'scheduled', run_at = p_now
                 where j.tenant_id = v_wait.tenant_id and j.id = v_wait.job_id
                   and j.state || '' = 'blocked' and j.lease = v_wait.lease;
            end if;
        end if;
    end loop;
    foreach v_attempt in array coalesce(p_gathered, '{}') loop
        select v_states[s.place] into v_attempt.state
          from unnest(p_settled.tenants, p_settled.jobs) with ordinality
               as s(tenant_id, job_id, place)
         where s.tenant_id = v_attempt.tenant_id and s.job_id = v_attempt.job_id;
        insert into jobforge.attempts select v_attempt.*;
    end loop;
    return v_states;
end $$;
