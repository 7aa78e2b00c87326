-- Returns what follow_up needs to know about a job that ended. Arguments are named at each call,
-- because many have the same type. The planner replaces the call by its body, so it costs nothing.
create or replace function jobforge_private.to_ended_job(
    p_tenant_id uuid,
    p_id uuid,
    p_lease bigint,
    p_state text,
    p_definition text,
    p_version integer,
    p_queue text,
    p_priority smallint,
    p_flags smallint,
    p_attempt integer,
    p_max_attempts integer,
    p_created_at timestamptz,
    p_started_at timestamptz,
    p_ended_at timestamptz,
    p_source text,
    p_source_ref text,
    p_correlation_id text,
    p_traceparent text,
    p_artifact_ref text,
    p_payload jsonb,
    p_was text default 'running',
    p_outcome text default null,
    p_reason text default null,
    p_error jsonb default null,
    p_result jsonb default null
) returns jobforge.ended_job
language sql immutable
as $$
    select row(
        p_tenant_id, p_id, p_lease, p_was, p_state, p_outcome, p_definition, p_version, p_queue,
        p_priority, p_flags, p_attempt, p_max_attempts, p_created_at, p_started_at, p_ended_at,
        p_source, p_source_ref, p_correlation_id, p_traceparent, p_artifact_ref, p_reason, p_error,
        p_payload, p_result)::jobforge.ended_job
$$;
