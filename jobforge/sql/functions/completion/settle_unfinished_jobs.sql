-- Settles the attempts after which the job continues or is dead, and notifies the workers of jobs
-- that were released. `ended` are the jobs with follow-up work, which the caller runs. Compares
-- worker and lease as settle_finished_jobs does; the caller of settle_jobs has locked the rows.
-- Called by settle_jobs.
create or replace function jobforge_private.settle_unfinished_jobs(
    p_worker_id uuid,
    p_outcomes jsonb,
    p_now timestamptz,
    p_listening uuid[],
    out settled jobforge.settled_jobs,
    out ended jobforge.ended_job[]
)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
    v_gathered jobforge.attempts[];  -- attempts that wait for other jobs now
    v_released_to text[];  -- queues
begin
    with given as materialized (
        select distinct on (o.tenant_id, o.job_id, o.lease) o.*,
               o.outcome not in ('snoozed', 'released') as counts
          from jobforge_private.read_outcomes(p_worker_id, p_outcomes) as o
         where o.outcome not in ('succeeded', 'canceled')
           and (v_tenant is null or o.tenant_id = v_tenant)
         order by o.tenant_id, o.job_id, o.lease
    ), held as materialized (
        -- The attempt as the job has it, before it is settled, and what happens to the job.
        select g.tenant_id, g.job_id, g.lease, g.outcome, g.counts, g.error, g.retry_in_s,
               g.run_at, g.exit_code, g.pid, g.peak_memory_bytes, g.cpu_ms,
               g.stdout_tail, g.stderr_tail,
               j.worker_id, j.definition, j.version, j.queue, j.attempt, j.queued_at, j.started_at,
               jobforge_private.fingerprint(j.definition, g.error) as fingerprint,
               (g.outcome = 'snoozed' and g.wait_kind = 'gather') is true as gathers,
               e.is_dead,
               case when e.is_dead then 'dead'
                    when g.outcome = 'released' then 'queued' else 'scheduled' end as new_state,
               least(d.backoff_cap_s, d.backoff_base_s * power(2, least(j.attempt - 1, 40)))
                   * (1 + random() * 0.1) as backoff_s
          from given as g
          join jobforge.jobs as j on j.tenant_id = g.tenant_id and j.id = g.job_id
          left join jobforge.definitions as d on d.key = j.definition and d.version = j.version
         cross join lateral (select g.counts
               and (coalesce(g.final, false) or j.attempt >= j.max_attempts) as is_dead) as e
         where j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
    ), settled as (
        update jobforge.jobs as j
           set state = h.new_state,
               attempt = j.attempt - case when h.counts then 0 else 1 end,
               run_at = case when h.is_dead or h.outcome = 'released' then j.run_at
                             else greatest(p_now, coalesce(h.run_at, p_now + make_interval(
                                 secs => coalesce(h.retry_in_s, h.backoff_s, 1)))) end,
               queued_at = case when h.outcome = 'released' or h.is_dead then j.queued_at end,
               finished_at = case when h.is_dead then p_now end,
               worker_id = null,
               lease_expires_at = null,
               error = case when h.counts then h.error else j.error end,
               fingerprint = case when h.counts then h.fingerprint else j.fingerprint end
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
        select h.tenant_id, h.job_id, h.worker_id, h.lease, h.queued_at, h.started_at,
               greatest(p_now, h.started_at),
               h.peak_memory_bytes, h.cpu_ms, h.version, h.attempt, h.exit_code, h.pid, h.outcome,
               h.new_state, h.definition, h.queue, h.fingerprint, h.error,
               h.stdout_tail, h.stderr_tail
          from held as h
         where not h.gathers
    )
    select array_agg(s.tenant_id), array_agg(s.id), array_agg(s.lease), array_agg(s.state),
           array_agg(jobforge_private.to_ended_job(
               p_tenant_id => s.tenant_id, p_id => s.id, p_lease => s.lease, p_state => s.state,
               p_definition => s.definition, p_version => s.version, p_queue => s.queue,
               p_priority => s.priority, p_flags => s.flags, p_attempt => s.attempt,
               p_max_attempts => s.max_attempts, p_created_at => s.created_at,
               p_started_at => s.started_at, p_ended_at => p_now, p_source => s.source,
               p_source_ref => s.source_ref, p_correlation_id => s.correlation_id,
               p_traceparent => s.traceparent, p_artifact_ref => s.artifact_ref,
               p_payload => s.payload, p_outcome => s.outcome, p_error => s.error))
               filter (where s.flags <> 0 or s.tenant_id = any (p_listening)),
           array_agg(distinct s.queue) filter (where s.state = 'queued'),
           -- begin_waits stores the attempts of gathers, because it decides the state of their
           -- jobs.
           (select array_agg(row(
                h.tenant_id, h.job_id, h.worker_id, h.lease, h.queued_at, h.started_at,
                greatest(p_now, h.started_at), pg_current_xact_id(), h.peak_memory_bytes, h.cpu_ms,
                h.version, h.attempt, h.exit_code, h.pid, h.outcome, h.new_state, h.definition,
                h.queue, h.fingerprint, h.error, h.stdout_tail, h.stderr_tail)::jobforge.attempts)
              from held as h where h.gathers)
      into settled.tenants, settled.jobs, settled.leases, settled.states, ended,
           v_released_to, v_gathered
      from settled as s;
    if v_released_to is not null then
        perform jobforge_private.notify_channel('jobforge:' || q.name)
           from unnest(v_released_to) as q(name);
    end if;
    if jsonb_path_exists(p_outcomes, '$[*].wait') then
        settled.states := jobforge_private.begin_waits(settled, p_outcomes, p_now, v_gathered);
    end if;
end $$;
