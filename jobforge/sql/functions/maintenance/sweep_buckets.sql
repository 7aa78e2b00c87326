-- Deletes the token buckets of limit keys that were unused for longer than any of them takes to
-- fill, p_limit at most: a full bucket equals no bucket, and every limit key ever used may have
-- one. Returns how many. Called by sweep.
create or replace function jobforge_private.sweep_buckets(p_now timestamptz, p_limit integer)
returns bigint
language plpgsql
as $$
declare
    v_longest_s double precision := (
        select max(greatest(d.rate_burst_per_key, d.rate_limit_per_key)
                   * d.rate_period_per_key_s / d.rate_limit_per_key)
          from jobforge.definitions as d);
    v_swept bigint;
begin
    delete from jobforge.rate_limits as b
     where b.ctid = any (array(
           select e.ctid from jobforge.rate_limits as e
            where e.bucket like 'key:%'
              and e.refilled_at < p_now - interval '1 day'
              and date_part('epoch', p_now - e.refilled_at) > coalesce(v_longest_s, 0)
            limit p_limit for update skip locked));
    get diagnostics v_swept = row_count;
    return v_swept;
end $$;
