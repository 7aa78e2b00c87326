-- The tokens in a bucket at a moment: what was left, refilled at its rate up to its burst.
create or replace function jobforge.tokens_of(
    p_bucket text,
    p_rate_limit integer,
    p_period_s double precision,
    p_burst integer,
    p_at timestamptz
) returns double precision
language sql stable
as $$
    select coalesce(
        (select least(p_burst, b.tokens + p_rate_limit / p_period_s
                    * greatest(0, extract(epoch from p_at - b.refilled_at)::double precision))
           from jobforge.rate_limits as b
          where b.bucket = p_bucket),
        p_burst)
$$;
