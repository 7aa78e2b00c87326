-- Returns the IDs of a tenant's jobs that match a filter, newest first, below p_before. All fields
-- of the filter are optional, and all given ones must match: state (one or a list; also `failed`:
-- the last attempt failed, and `canceling`), definition, queue, tag, source, key, correlation_id,
-- fingerprint, created_after, created_before. p_only_changeable leaves out finished jobs and those
-- with a requested cancel; p_only_retryable leaves out erased dead jobs. Called by list_jobs and
-- the bulk actions. Raises JF002.
--
-- Dead jobs have separate indexes. Other jobs are read in order of ID until the page is full, so a
-- filter that few jobs match reads many.
create or replace function jobforge_private.matching_jobs(
    p_tenant_id uuid,
    p_filter jsonb,
    p_limit integer,
    p_before uuid default null,
    p_only_changeable boolean default false,
    p_only_retryable boolean default false
) returns setof uuid
language plpgsql
as $$
declare
    f jobforge.job_filter := jobforge_private.read_filter(p_filter);
    v_before uuid := coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
    if f.states = '{dead}' and f.fingerprint is not null then
        return query
        select j.id
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.state = 'dead' and j.fingerprint = f.fingerprint
           and j.id < v_before and (j.flags & 8 = 0 or not p_only_retryable)
           and jobforge_private.matches_filter(f, j.definition, j.queue, j.tags, j.source,
                                               j.idempotency_key, j.correlation_id, j.fingerprint,
                                               j.created_at)
         order by j.id desc
         limit p_limit;
    elsif f.states = '{dead}' then
        return query
        select j.id
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.finished_at is not null and j.id < v_before
           and (j.flags & 8 = 0 or not p_only_retryable)
           and jobforge_private.matches_filter(f, j.definition, j.queue, j.tags, j.source,
                                               j.idempotency_key, j.correlation_id, j.fingerprint,
                                               j.created_at)
         order by j.id desc
         limit p_limit;
    else
        return query
        select m.id
          from ((select j.id
                   from jobforge.jobs as j
                  where j.tenant_id = p_tenant_id and j.id < v_before and f.wants_live
                    and not (p_only_changeable and j.cancel_requested_at is not null)
                    and (f.states is null or j.state = any (f.states)
                         or f.wants_failed and j.error is not null and j.state <> 'running'
                         or f.wants_canceling and j.cancel_requested_at is not null)
                    and jobforge_private.matches_filter(
                            f, j.definition, j.queue, j.tags, j.source, j.idempotency_key,
                            j.correlation_id, j.fingerprint, j.created_at)
                  order by j.id desc
                  limit p_limit)
                union all
                (select h.id
                   from jobforge.finished_jobs as h
                  where h.tenant_id = p_tenant_id and h.id < v_before
                    and f.wants_finished and not p_only_changeable
                    and (f.states is null or h.state = any (f.states)
                         or f.wants_failed and h.error is not null)
                    and jobforge_private.matches_filter(
                            f, h.definition, h.queue, h.tags, h.source, h.idempotency_key,
                            h.correlation_id, h.fingerprint, h.created_at)
                  order by h.id desc
                  limit p_limit)) as m
         order by m.id desc
         limit p_limit;
    end if;
end $$;
