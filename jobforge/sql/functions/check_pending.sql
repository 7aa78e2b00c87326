-- Refuses an enqueue that would take a tenant past its pending limit (JF008, with the depth).
-- Counted exactly up to 10,000. Above that a count costs milliseconds, so this session keeps its
-- last one for five seconds and adds what it has enqueued since. Committed rows and those of this
-- transaction count; two transactions in flight do not see each other.
create or replace function jobforge.check_pending(
    p_tenant_id uuid,
    p_limit integer,
    p_more integer
) returns void
language plpgsql
as $$
declare
    v_kept text[] := string_to_array(current_setting('jobforge.pending', true), ' ');
    v_at double precision := extract(epoch from clock_timestamp());
    v_depth bigint;
begin
    if p_limit > 10000 and v_kept[1] = p_tenant_id::text
       and v_kept[2]::double precision > v_at - 5 then
        v_at := v_kept[2]::double precision;
        v_depth := v_kept[3]::bigint;
    else
        select count(*) into v_depth from (
            select from jobforge.jobs as j
             where j.tenant_id = p_tenant_id
               and j.state in ('scheduled', 'blocked', 'queued')
             limit p_limit + 1::bigint) as pending;
    end if;
    if v_depth + p_more > p_limit then
        perform jobforge.refuse('JF008',
            format('the tenant has %s pending jobs of %s allowed', v_depth, p_limit),
            jsonb_build_object('depth', v_depth, 'limit', p_limit));
    end if;
    if p_limit > 10000 then
        perform set_config('jobforge.pending',
            concat_ws(' ', p_tenant_id, v_at, v_depth + p_more), false);
    end if;
end $$;
