-- The ids of a tenant's jobs that match a filter, newest first, below p_before. The filter's
-- fields, all optional, all must hold: state (one or a list; also `failed`: the last attempt
-- failed, and `canceling`), definition, queue, tag, source, key, correlation_id, fingerprint,
-- created_after, created_before. p_only_changeable leaves out
-- finished jobs and those asked to cancel. Read by list_jobs and the bulk actions. Raises JF002.
create or replace function jobforge.matching_jobs(
    p_tenant_id uuid,
    p_filter jsonb,
    p_limit integer,
    p_before uuid default null,
    p_only_changeable boolean default false
) returns table (job_id uuid, is_finished boolean)
language plpgsql stable
as $$
declare
    f record := jobforge.read_filter(p_filter);
    v_before uuid := coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
    if f.states = '{dead}' and f.fingerprint is not null then
        return query
        select j.id, false from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.state = 'dead' and j.fingerprint = f.fingerprint
           and j.id < v_before
           and (f.definition is null or j.definition = f.definition)
           and (f.queue is null or j.queue = f.queue)
           and (f.tag is null or f.tag = any (j.tags))
           and (f.source is null or j.source = f.source)
           and (f.key is null or j.idempotency_key = f.key)
           and (f.correlation_id is null or j.correlation_id = f.correlation_id)
           and (f.created_after is null or j.created_at >= f.created_after)
           and (f.created_before is null or j.created_at < f.created_before)
         order by j.id desc limit p_limit;
        return;
    end if;
    return query
    select m.id, m.is_finished
      from ((select j.id, false as is_finished
               from jobforge.jobs as j
              where j.tenant_id = p_tenant_id and j.id < v_before and f.wants_live
                and not (p_only_changeable and j.cancel_requested_at is not null)
                and (f.states is null or j.state = any (f.states)
                     or f.wants_failed and j.error is not null and j.state <> 'running'
                     or f.wants_canceling and j.cancel_requested_at is not null)
                and (f.definition is null or j.definition = f.definition)
                and (f.queue is null or j.queue = f.queue)
                and (f.tag is null or f.tag = any (j.tags))
                and (f.source is null or j.source = f.source)
                and (f.key is null or j.idempotency_key = f.key)
                and (f.correlation_id is null or j.correlation_id = f.correlation_id)
                and (f.fingerprint is null or j.fingerprint = f.fingerprint)
                and (f.created_after is null or j.created_at >= f.created_after)
                and (f.created_before is null or j.created_at < f.created_before)
              order by j.id desc limit p_limit)
            union all
            (select h.id, true
               from jobforge.finished_jobs as h
              where h.tenant_id = p_tenant_id and h.id < v_before and f.wants_finished and not p_only_changeable
                and (f.states is null or h.state = any (f.states)
                     or f.wants_failed and h.error is not null)
                and (f.definition is null or h.definition = f.definition)
                and (f.queue is null or h.queue = f.queue)
                and (f.tag is null or f.tag = any (h.tags))
                and (f.source is null or h.source = f.source)
                and (f.key is null or h.idempotency_key = f.key)
                and (f.correlation_id is null or h.correlation_id = f.correlation_id)
                and (f.fingerprint is null or h.fingerprint = f.fingerprint)
                and (f.created_after is null or h.created_at >= f.created_after)
                and (f.created_before is null or h.created_at < f.created_before)
              order by h.id desc limit p_limit)) as m
     order by m.id desc
     limit p_limit;
end $$;
