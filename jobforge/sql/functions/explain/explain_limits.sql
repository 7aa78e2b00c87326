-- Explains a waiting job by the caps that are full, with those of the tenant's own jobs that use
-- their slots, and the rate limits that are used up. Called by explain_job.
create or replace function jobforge_private.explain_limits(
    p_job jobforge.all_jobs,
    p_now timestamptz
) returns table (code text, message text, remedy text, detail jsonb)
language plpgsql stable
as $$
declare
    v_limit record;
    v_running bigint;
    v_tokens double precision;
begin
    for v_limit in
        select l.*
          from jobforge_private.group_limits(p_job.queue, p_job.tenant_id, p_job.definition,
                                             p_job.limit_key) as l
    loop
        if v_limit.max_running > 0 then
            v_running := jobforge_private.count_running(
                v_limit.kind, p_job.queue, p_job.tenant_id, p_job.definition, p_job.limit_key,
                v_limit.max_running);
            if v_running >= v_limit.max_running then
                return query select v_limit.kind || '_cap_reached',
                    format('The concurrency limit of the %s is reached: %s of %s slots are in use.',
                           v_limit.kind, v_running, v_limit.max_running),
                    'Wait for a slot, or raise the limit.',
                    jsonb_build_object('running', v_running, 'max_running', v_limit.max_running,
                        'held_by', (
                            select coalesce(jsonb_agg(jsonb_build_object(
                                       'job_id', j.id, 'started_at', j.started_at)), '[]')
                              from (select h.id, h.started_at from jobforge.jobs as h
                                     where h.tenant_id = p_job.tenant_id and h.state = 'running'
                                       and h.gate is not null
                                       and (v_limit.kind <> 'queue' or h.queue = p_job.queue)
                                       and (v_limit.kind not in ('definition', 'key')
                                            or h.definition = p_job.definition)
                                       and (v_limit.kind <> 'key' or h.limit_key = p_job.limit_key)
                                     order by h.started_at limit 10) as j));
            end if;
        end if;
        if v_limit.rate_limit is not null then
            v_tokens := jobforge_private.available_tokens(v_limit.subject, v_limit.rate_limit,
                                                          v_limit.rate_period_s, v_limit.rate_burst,
                                                          p_now);
            if v_tokens < 1 then
                return query select v_limit.kind || '_rate_limited',
                    format('The rate limit of the %s is reached: %s per %s s.',
                           v_limit.kind, v_limit.rate_limit, v_limit.rate_period_s),
                    'Wait, or raise the rate limit.',
                    jsonb_build_object('rate_limit', v_limit.rate_limit,
                        'rate_period_s', v_limit.rate_period_s,
                        'next_at', p_now + make_interval(
                            secs => (1 - v_tokens) * v_limit.rate_period_s / v_limit.rate_limit));
            end if;
        end if;
    end loop;
end $$;
