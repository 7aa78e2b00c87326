-- The server calls this for each request: takes one token from a token bucket that holds p_burst
-- tokens, starts full and refills at p_rate tokens per second. Returns whether there was a token,
-- and otherwise after how many seconds to retry. Buckets are named `tenant:<id>` and `key:<id>`, so
-- that an erasure finds them. Locks the bucket; waits for other requests that use it. Raises JF002.
create or replace function jobforge.take_request(
    p_bucket text,
    p_rate double precision,
    p_burst integer
) returns table (allowed boolean, retry_after_s double precision)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    perform jobforge_private.check_name('bucket', p_bucket, 200);
    if p_rate is null or not (p_rate > 0 and p_rate < 'infinity')
       or p_burst is null or p_burst < 1 then
        perform jobforge_private.refuse('JF002', 'rate and burst must be positive',
            '{"field": "rate"}');
    end if;
    -- Another call may have taken a token while this one waited; greatest() prevents a second
    -- refill.
    return query
    insert into jobforge.request_rates as r (bucket, tokens, refilled_at, is_allowed)
    values (p_bucket, p_burst - 1, v_now, true)
    on conflict (bucket) do update
       set (tokens, is_allowed, refilled_at) = (
           select f.tokens - (f.tokens >= 1)::integer, f.tokens >= 1,
                  greatest(r.refilled_at, v_now)
             from (select least(p_burst::double precision, r.tokens + p_rate * greatest(0,
                       extract(epoch from v_now - r.refilled_at)::double precision)) as tokens)
                  as f)
    returning r.is_allowed, case when r.is_allowed then 0 else (1 - r.tokens) / p_rate end;
end $$;
