-- Returns the webhook message about a job, 20 kB at most. Has the type and message of an error, and
-- a result as a whole or not at all, but never the payload. Called by notify_endpoints and
-- notify_job_starts.
create or replace function jobforge_private.build_message(p_event text, p_job jobforge.ended_job)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'type', p_event,
        'timestamp', jobforge_private.utc_text(coalesce(p_job.ended_at, p_job.started_at)),
        'data', jsonb_build_object(
            'job_id', p_job.id, 'tenant_id', p_job.tenant_id, 'definition', p_job.definition,
            'version', p_job.version, 'queue', p_job.queue, 'priority', p_job.priority,
            'state', p_job.state, 'outcome', p_job.outcome, 'attempt', p_job.attempt,
            'max_attempts', p_job.max_attempts,
            'created_at', jobforge_private.utc_text(p_job.created_at),
            'started_at', jobforge_private.utc_text(p_job.started_at),
            'ended_at', jobforge_private.utc_text(p_job.ended_at),
            'source', p_job.source, 'source_ref', left(p_job.source_ref, 255),
            'correlation_id', p_job.correlation_id, 'artifact_ref', p_job.artifact_ref,
            'reason', left(p_job.reason, 500),
            'error', case when jsonb_typeof(p_job.error) = 'object' then jsonb_build_object(
                'type', left(p_job.error ->> 'type', 200),
                'message', left(p_job.error ->> 'message', 500)) end,
            'result',
            case when jobforge_private.is_bounded(p_job.result, 8192) then p_job.result end,
            'result_omitted', coalesce(not jobforge_private.is_bounded(p_job.result, 8192), false)))
$$;
