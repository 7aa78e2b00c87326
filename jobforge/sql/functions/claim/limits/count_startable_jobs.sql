-- Returns how many jobs may start now under one limit: free slots of the cap or tokens of the rate
-- limit, whichever is less. p_taken jobs were picked in this round and do not run yet; their tokens
-- were already taken. The caller has locked the limit in an earlier statement, so the counts
-- include everything that was committed before. Called by pick_group.
create or replace function jobforge_private.count_startable_jobs(
    p_limit jobforge.group_limit,
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_limit_key text,
    p_taken integer,
    p_now timestamptz
) returns bigint
language plpgsql
as $$
declare
    v_left bigint := 1000000;
begin
    if p_limit.max_running is not null then
        v_left := p_limit.max_running - p_taken;
        -- Counted first: a row that gets its gate between the two counts is in both, never in
        -- neither.
        if p_limit.changed_at > p_now - interval '1 minute' then
            v_left := v_left - jobforge_private.count_ungated_running(
                p_limit.kind, p_queue, p_tenant_id, p_definition, p_limit_key,
                p_limit.max_running);
        end if;
        v_left := v_left - jobforge_private.count_running(
            p_limit.kind, p_queue, p_tenant_id, p_definition, p_limit_key, p_limit.max_running);
    end if;
    if p_limit.rate_limit is not null then
        v_left := least(v_left, floor(jobforge_private.available_tokens(
            p_limit.subject, p_limit.rate_limit, p_limit.rate_period_s, p_limit.rate_burst,
            p_now))::bigint);
    end if;
    return v_left;
end $$;
