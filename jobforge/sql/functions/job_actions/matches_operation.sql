-- Returns whether an operation acts on a job: its state fits the kind of operation
-- (find_operation_jobs), and it matches the filter.
create or replace function jobforge_private.matches_operation(
    j jobforge.jobs,
    p_kind text,
    f jobforge.job_filter
) returns boolean
language sql immutable
as $$
    select case p_kind
               when 'cancel' then j.state in ('scheduled', 'blocked', 'queued', 'running')
                                  and j.cancel_requested_at is null
               when 'retry' then j.state = 'dead'
                                 or j.state = 'scheduled' and j.attempt > 0 and j.error is not null
               else j.state = 'dead' end
       -- An erased job has no data with which it could run again.
       and (j.flags & 8 = 0 or p_kind in ('cancel', 'discard'))
       and (f.states is null or j.state = any (f.states)
            or f.wants_failed and j.error is not null and j.state <> 'running')
       and jobforge_private.matches_filter(f, j.definition, j.queue, j.tags, j.source,
                                           j.idempotency_key, j.correlation_id, j.fingerprint,
                                           j.created_at)
$$;
