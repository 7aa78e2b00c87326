-- Returns the duration that the given share of a histogram's values does not exceed, interpolated
-- within its bucket. Null for an empty histogram. Called by get_statistics.
create or replace function jobforge_private.percentile_ms(
    p_histogram bigint[],
    p_share double precision
) returns double precision
language plpgsql immutable
as $$
declare
    v_bounds double precision[] := 0::double precision || jobforge_private.duration_bounds();
    v_rank bigint := ceil(p_share * (select sum(n) from unnest(p_histogram) as n));
    v_before bigint := 0;
begin
    for i in 1 .. cardinality(p_histogram) loop
        if v_before + p_histogram[i] >= v_rank and p_histogram[i] > 0 then
            -- The last bucket has no upper bound.
            return v_bounds[i] + (coalesce(v_bounds[i + 1], v_bounds[i]) - v_bounds[i])
                   * (v_rank - v_before - 0.5) / p_histogram[i];
        end if;
        v_before := v_before + p_histogram[i];
    end loop;
    return null;
end $$;
