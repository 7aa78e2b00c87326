-- Returns whether a job matches a filter, except for its state.
create or replace function jobforge_private.matches_filter(
    f jobforge.job_filter,
    p_definition text,
    p_queue text,
    p_tags text[],
    p_source text,
    p_key text,
    p_correlation_id text,
    p_fingerprint text,
    p_created_at timestamptz
) returns boolean
language sql immutable
as $$
    select (f.definition is null or p_definition = f.definition)
       and (f.queue is null or p_queue = f.queue)
       and (f.tag is null or f.tag = any (p_tags))
       and (f.source is null or p_source = f.source)
       and (f.key is null or p_key = f.key)
       and (f.correlation_id is null or p_correlation_id = f.correlation_id)
       and (f.fingerprint is null or p_fingerprint = f.fingerprint)
       and (f.created_after is null or p_created_at >= f.created_after)
       and (f.created_before is null or p_created_at < f.created_before)
$$;
