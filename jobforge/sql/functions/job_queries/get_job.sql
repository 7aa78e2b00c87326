-- Applications call this for one job: returns the job, its attempts (including the one in
-- progress), and its timeline, oldest first, without log lines (list_notes). Raises JF001, JF004,
-- JF006, JF014.
create or replace function jobforge.get_job(p_job_id uuid, p_tenant_id uuid default null)
returns table (job jsonb, attempts jsonb, events jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_custom_plan  -- excludes partitions before they are locked
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_since timestamptz := jobforge_private.earliest_history(p_job_id);
    -- One day for clocks that were set back. Without an upper bound, the default partition and
    -- those of the coming days would be locked too.
    v_until timestamptz := jobforge_private.now() + interval '1 day';
    v_ended_until timestamptz;
    v_job jobforge.all_jobs;
begin
    select * into v_job from jobforge.all_jobs as a
     where a.tenant_id = v_tenant and a.id = p_job_id
       and (a.finished_at is null or a.finished_at between v_since and v_until)
     limit 1;
    if not found then
        perform jobforge_private.refuse('JF004', 'Job not found',
            jsonb_build_object('job_id', p_job_id));
    end if;
    v_ended_until := least(v_until, v_job.finished_at + interval '1 day');
    attempts := (
        select coalesce(jsonb_agg(to_jsonb(t) - '{tenant_id,txid,n}'::text[]
                                  || jsonb_build_object('error', jobforge_private.readable(
                                         t.error, (67108864 / t.n)::integer))
                                  order by t.lease), '[]')
          from (select h.*, count(*) over () as n from jobforge.all_attempts as h
                 where h.tenant_id = v_tenant and h.job_id = p_job_id
                   and h.ended_at between v_since and v_ended_until) as t);
    v_job.payload := jobforge_private.readable(v_job.payload);
    v_job.result := jobforge_private.readable(v_job.result);
    v_job.error := jobforge_private.readable(v_job.error);
    if v_job.state = 'running' then
        attempts := attempts || jsonb_build_object(
            'job_id', v_job.id, 'attempt', v_job.attempt, 'lease', v_job.lease,
            'worker_id', v_job.worker_id, 'queued_at', v_job.queued_at,
            'started_at', v_job.started_at, 'definition', v_job.definition,
            'version', v_job.version, 'queue', v_job.queue, 'outcome', null, 'ended_at', null);
    end if;
    job := to_jsonb(v_job) || jsonb_build_object('state',
        case when v_job.state = 'running' and v_job.cancel_requested_at is not null
             then 'canceling' else v_job.state end)
        || jobforge_private.show_relatives(v_tenant, p_job_id);
    events := (
        select coalesce(
                   jsonb_agg(jsonb_strip_nulls(to_jsonb(e) - 'rank') order by e.at, e.rank), '[]')
          from (select v_job.created_at as at, 0 as rank, 'created' as kind,
                       v_job.created_by as actor, null::jsonb as data
                union all
                select (t.a ->> 'started_at')::timestamptz, 1, 'attempt_started', null,
                       jsonb_build_object('attempt', t.a -> 'attempt',
                                          'worker_id', t.a -> 'worker_id')
                  from jsonb_array_elements(attempts) as t(a)
                union all
                select (t.a ->> 'ended_at')::timestamptz, 2, 'attempt_ended', null,
                       jsonb_build_object('attempt', t.a -> 'attempt', 'outcome', t.a -> 'outcome')
                  from jsonb_array_elements(attempts) as t(a) where t.a ->> 'ended_at' is not null
                union all
                select n.at, 1, n.kind, n.actor,
                       jobforge_private.readable(n.data, (67108864 / count(*) over ())::integer)
                  from jobforge.job_events as n
                 where n.tenant_id = v_tenant and n.job_id = p_job_id and n.kind <> 'log'
                   and n.at between v_since and v_until
                union all
                select s.at, 1, 'step', null, jsonb_build_object(
                           'kind', s.kind, 'name', s.name, 'index', s.index,
                           'timed_out', s.kind = 'event' and s.result is null)
                  from jobforge.steps as s
                 where s.tenant_id = v_tenant and s.job_id = p_job_id
                union all
                select v_job.finished_at, 3, v_job.state, null,
                       jsonb_build_object('reason', v_job.cancel_reason)
                 where v_job.finished_at is not null) as e);
    return next;
end $$;
