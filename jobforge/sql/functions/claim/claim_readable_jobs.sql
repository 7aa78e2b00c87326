-- Workers call this after claim_jobs or load_steps failed because a value cannot be sent (SQLSTATE
-- 54000 or 53200): claims as claim_jobs does, and leaves out jobs whose payload is too long as text
-- (is_bounded) and jobs whose steps cannot be loaded (steps_fault). Those jobs fail permanently
-- with error type UnreadablePayload or UnreadableSteps. An unreadable payload is removed: it cannot
-- be enqueued; only a superuser or a restore can insert it. Locks and raises what claim_jobs,
-- load_steps and complete_jobs do.
create or replace function jobforge.claim_readable_jobs(
    p_worker_id uuid,
    p_queues text[],
    p_limits integer[],
    p_definitions text[] default null,
    p_tenants uuid[] default null,
    p_lease_s double precision default 30,
    p_registered boolean default false
) returns table (
    tenant_id uuid, job_id uuid, lease bigint, lease_expires_at timestamptz, definition text,
    version integer, queue text, priority smallint, attempt integer, max_attempts integer,
    timeout_s integer, created_at timestamptz, run_at timestamptz, queued_at timestamptz,
    started_at timestamptz, source text, source_ref text, correlation_id text, traceparent text,
    idempotency_key text, limit_key text, tags text[], artifact_ref text, flags smallint,
    payload jsonb
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_job record;
    v_fault text;
    v_outcomes jsonb := '[]';
begin
    perform jobforge_private.require_read_committed('claim_readable_jobs');
    for v_job in
        -- The payload of a hook job contains a payload and a result, so its limit is higher.
        select c.*, jobforge_private.is_bounded(c.payload, 16777216) as is_readable
          from jobforge.claim_jobs(
                   p_worker_id, p_queues, p_limits, p_definitions, p_tenants, p_lease_s,
                   p_registered) as c
    loop
        v_fault := case when v_job.is_readable and v_job.flags & 4 = 4
                        then jobforge_private.steps_fault(
                            p_worker_id, v_job.tenant_id, v_job.job_id, v_job.lease) end;
        if v_fault is not null then
            v_outcomes := v_outcomes || jsonb_build_object(
                'tenant_id', v_job.tenant_id, 'job_id', v_job.job_id, 'lease', v_job.lease,
                'outcome', 'failed', 'final', true, 'error', jsonb_build_object(
                    'type', 'UnreadableSteps', 'message', v_fault));
        elsif v_job.is_readable then
            tenant_id := v_job.tenant_id;
            job_id := v_job.job_id;
            lease := v_job.lease;
            lease_expires_at := v_job.lease_expires_at;
            definition := v_job.definition;
            version := v_job.version;
            queue := v_job.queue;
            priority := v_job.priority;
            attempt := v_job.attempt;
            max_attempts := v_job.max_attempts;
            timeout_s := v_job.timeout_s;
            created_at := v_job.created_at;
            run_at := v_job.run_at;
            queued_at := v_job.queued_at;
            started_at := v_job.started_at;
            source := v_job.source;
            source_ref := v_job.source_ref;
            correlation_id := v_job.correlation_id;
            traceparent := v_job.traceparent;
            idempotency_key := v_job.idempotency_key;
            limit_key := v_job.limit_key;
            tags := v_job.tags;
            artifact_ref := v_job.artifact_ref;
            flags := v_job.flags;
            payload := v_job.payload;
            return next;
        else
            update jobforge.jobs as j
               set payload = '{"$unreadable": "the value was too long as JSON text"}'
             where j.tenant_id = v_job.tenant_id and j.id = v_job.job_id
               and j.lease = v_job.lease;
            v_outcomes := v_outcomes || jsonb_build_object(
                'tenant_id', v_job.tenant_id, 'job_id', v_job.job_id, 'lease', v_job.lease,
                'outcome', 'failed', 'final', true, 'error', jsonb_build_object(
                    'type', 'UnreadablePayload',
                    'message', 'The payload was too long as JSON text and was removed'));
        end if;
    end loop;
    perform jobforge.complete_jobs(p_worker_id, v_outcomes) where v_outcomes <> '[]';
end $$;
