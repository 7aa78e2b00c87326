-- Returns a histogram of 32 buckets from a list of bucket numbers. Called by roll_up_statistics.
create or replace function jobforge_private.count_buckets(p_buckets integer[]) returns integer[]
language plpgsql immutable
as $$
declare
    v_counts integer[] := array_fill(0, array[32]);
    v_bucket integer;
begin
    foreach v_bucket in array coalesce(p_buckets, '{}') loop
        v_counts[v_bucket] := v_counts[v_bucket] + 1;
    end loop;
    return v_counts;
end $$;
