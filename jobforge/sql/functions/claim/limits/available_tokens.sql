-- Returns the tokens in a token bucket at a moment: what was left, refilled at its rate up to its
-- burst. A bucket without a row is full.
create or replace function jobforge_private.available_tokens(
    p_bucket text,
    p_rate_limit integer,
    p_period_s double precision,
    p_burst integer,
    p_at timestamptz
) returns double precision
language plpgsql
as $$
declare
    v_bucket jobforge.rate_limits;
begin
    select * into v_bucket from jobforge.rate_limits as b where b.bucket = p_bucket;
    if not found then
        return p_burst;
    end if;
    return least(p_burst, v_bucket.tokens + p_rate_limit / p_period_s
        * greatest(0, extract(epoch from p_at - v_bucket.refilled_at)::double precision));
end $$;
