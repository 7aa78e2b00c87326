-- Returns the IDs of a tenant's jobs that match a filter, oldest first, above p_after:
-- matching_jobs in the other direction. Called by list_jobs. Raises JF002.
create or replace function jobforge_private.oldest_matching_jobs(
    p_tenant_id uuid,
    p_filter jsonb,
    p_limit integer,
    p_after uuid default null
) returns setof uuid
language plpgsql
as $$
declare
    f jobforge.job_filter := jobforge_private.read_filter(p_filter);
    v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
    if f.states = '{dead}' and f.fingerprint is not null then
        return query
        select j.id
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.state = 'dead' and j.fingerprint = f.fingerprint
           and j.id > v_after
           and jobforge_private.matches_filter(f, j.definition, j.queue, j.tags, j.source,
                                               j.idempotency_key, j.correlation_id, j.fingerprint,
                                               j.created_at)
         order by j.id
         limit p_limit;
    elsif f.states = '{dead}' then
        return query
        select j.id
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.finished_at is not null and j.id > v_after
           and jobforge_private.matches_filter(f, j.definition, j.queue, j.tags, j.source,
                                               j.idempotency_key, j.correlation_id, j.fingerprint,
                                               j.created_at)
         order by j.id
         limit p_limit;
    else
        return query
        select m.id
          from ((select j.id
                   from jobforge.jobs as j
                  where j.tenant_id = p_tenant_id and j.id > v_after and f.wants_live
                    and (f.states is null or j.state = any (f.states)
                         or f.wants_failed and j.error is not null and j.state <> 'running'
                         or f.wants_canceling and j.cancel_requested_at is not null)
                    and jobforge_private.matches_filter(
                            f, j.definition, j.queue, j.tags, j.source, j.idempotency_key,
                            j.correlation_id, j.fingerprint, j.created_at)
                  order by j.id
                  limit p_limit)
                union all
                (select h.id
                   from jobforge.finished_jobs as h
                  where h.tenant_id = p_tenant_id and h.id > v_after
                    and f.wants_finished
                    and (f.states is null or h.state = any (f.states)
                         or f.wants_failed and h.error is not null)
                    and jobforge_private.matches_filter(
                            f, h.definition, h.queue, h.tags, h.source, h.idempotency_key,
                            h.correlation_id, h.fingerprint, h.created_at)
                  order by h.id
                  limit p_limit)) as m
         order by m.id
         limit p_limit;
    end if;
end $$;
