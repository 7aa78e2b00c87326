-- The server takes one token from a bucket, which refills at p_rate per second up to p_burst, and
-- starts full. Says whether there was one, and if not, when to come again. Buckets are named
-- `tenant:<id>` and `key:<id>`: an erasure finds them so. Waits for others at the same bucket.
-- Raises JF002.
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
    -- A bucket that somebody else took from while this one waited is not refilled twice.
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
