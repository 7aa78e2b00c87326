-- Settles the attempts after which the job continues or is dead. Compares worker and lease as
-- settle_jobs does; the rows are locked by the caller of settle_jobs. p_ended are the jobs that
-- settle_jobs has finished: the follow-up work of all jobs is done at once, in one order of locks.
-- Called by settle_jobs.
create or replace function jobforge_private.settle_unfinished_jobs(
    p_worker_id uuid,
    p_outcomes jsonb,
    p_now timestamptz,
    p_ended jobforge.ended_job[]
)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
    v_settled jobforge.settled_jobs;
    v_ended jobforge.ended_job[];
    v_listening uuid[];
    v_has_waits boolean := jsonb_path_exists(p_outcomes, '$[*].wait');
    v_gathers uuid[] := '{}';
    v_gathered jobforge.attempts[];
    v_queues text[];  -- queues of released jobs
begin
    if v_has_waits then
        v_gathers := array(
            select (o ->> 'job_id')::uuid from jsonb_array_elements(p_outcomes) as o
             where o #>> '{wait,kind}' = 'gather');
    end if;
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(array(
            select (o ->> 'tenant_id')::uuid from jsonb_array_elements(p_outcomes) as o));
    end if;
    with given as materialized (
        select distinct on (o.tenant_id, o.job_id, o.lease) o.*,
               o.outcome in ('snoozed', 'released') as is_free
          from jobforge_private.read_outcomes(p_worker_id, p_outcomes) as o
         where o.outcome not in ('succeeded', 'canceled')
           and (v_tenant is null or o.tenant_id = v_tenant)
         order by o.tenant_id, o.job_id, o.lease
    ), held as materialized (
        select g.tenant_id, g.job_id, g.lease, g.outcome, g.is_free, g.error, g.retry_in_s,
               g.run_at, g.exit_code, g.pid, g.peak_memory_bytes, g.cpu_ms,
               g.stdout_tail, g.stderr_tail,
               j.worker_id as held_by, j.definition, j.version, j.queue, j.attempt,
               j.queued_at, j.started_at,
               jobforge_private.fingerprint(j.definition, g.error) as fingerprint,
               g.outcome = 'snoozed' and g.job_id = any (v_gathers) as is_gather,
               e.is_dead,
               case when e.is_dead then 'dead'
                    when g.outcome = 'released' then 'queued' else 'scheduled' end as new_state,
               least(d.backoff_cap_s, d.backoff_base_s * power(2, least(j.attempt - 1, 40)))
                   * (1 + random() * 0.1) as backoff_s
          from given as g
          join jobforge.jobs as j on j.tenant_id = g.tenant_id and j.id = g.job_id
          left join jobforge.definitions as d on d.key = j.definition and d.version = j.version
         cross join lateral (select not g.is_free
               and (coalesce(g.final, false) or j.attempt >= j.max_attempts) as is_dead) as e
         where j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
    ), settled as (
        update jobforge.jobs as j
           set state = h.new_state,
               attempt = j.attempt - case when h.is_free then 1 else 0 end,
               run_at = case when h.is_dead or h.outcome = 'released' then j.run_at
                             else greatest(p_now, coalesce(h.run_at, p_now + make_interval(
                                 secs => coalesce(h.retry_in_s, h.backoff_s, 1)))) end,
               queued_at = case when h.outcome = 'released' or h.is_dead then j.queued_at end,
               finished_at = case when h.is_dead then p_now end,
               worker_id = null,
               lease_expires_at = null,
               error = case when h.is_free then j.error else h.error end,
               fingerprint = case when h.is_free then j.fingerprint else h.fingerprint end
          from held as h
         where j.tenant_id = h.tenant_id and j.id = h.job_id
           and j.state || '' = 'running' and j.lease = h.lease
        returning j.tenant_id, j.id, j.lease, j.state, h.outcome, j.definition, j.version,
                  j.queue, j.priority, j.flags, j.attempt, j.max_attempts, j.created_at,
                  j.started_at, j.source, j.source_ref, j.correlation_id, j.traceparent,
                  j.artifact_ref, j.error, j.payload
    ), logged as (
        insert into jobforge.attempts (
               tenant_id, job_id, worker_id, lease, queued_at, started_at, ended_at,
               peak_memory_bytes, cpu_ms, version, attempt, exit_code, pid, outcome, state,
               definition, queue, fingerprint, error, stdout_tail, stderr_tail)
        select h.tenant_id, h.job_id, h.held_by, h.lease, h.queued_at, h.started_at,
               greatest(p_now, h.started_at),
               h.peak_memory_bytes, h.cpu_ms, h.version, h.attempt, h.exit_code, h.pid, h.outcome,
               h.new_state, h.definition, h.queue, h.fingerprint, h.error,
               h.stdout_tail, h.stderr_tail
          from held as h
         where not h.is_gather
    )
    select array_agg(s.tenant_id), array_agg(s.id), array_agg(s.lease), array_agg(s.state),
           array_agg(row(
               s.tenant_id, s.id, s.lease, 'running', s.state, s.outcome, s.definition, s.version,
               s.queue, s.priority, s.flags, s.attempt, s.max_attempts, s.created_at,
               s.started_at, p_now, s.source, s.source_ref, s.correlation_id, s.traceparent,
               s.artifact_ref, null, s.error, s.payload, null)::jobforge.ended_job)
               filter (where s.flags <> 0 or s.tenant_id = any (v_listening)),
           array_agg(distinct s.queue) filter (where s.state = 'queued'),
           -- begin_waits stores the attempts of gathers, because it decides the state of their
           -- jobs.
           (select array_agg(row(
                h.tenant_id, h.job_id, h.held_by, h.lease, h.queued_at, h.started_at,
                greatest(p_now, h.started_at), pg_current_xact_id(), h.peak_memory_bytes, h.cpu_ms,
                h.version, h.attempt, h.exit_code, h.pid, h.outcome, h.new_state, h.definition,
                h.queue, h.fingerprint, h.error, h.stdout_tail, h.stderr_tail)::jobforge.attempts)
              from held as h where h.is_gather)
      into v_settled.tenants, v_settled.jobs, v_settled.leases, v_settled.states, v_ended,
           v_queues, v_gathered
      from settled as s;
    if v_queues is not null then
        perform jobforge_private.notify_channel('jobforge:' || q.name)
           from unnest(v_queues) as q(name);
    end if;
    if v_has_waits then
        v_settled.states := jobforge_private.begin_waits(v_settled, p_outcomes, p_now, v_gathered);
    end if;
    v_ended := p_ended || v_ended;
    if v_ended is not null then
        perform jobforge_private.follow_up(v_ended);
    end if;
    return query
    select * from unnest(v_settled.tenants, v_settled.jobs, v_settled.leases, v_settled.states);
end $$;
