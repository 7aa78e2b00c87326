-- Returns the sum of two histograms. Called by roll_up_statistics.
create or replace function jobforge_private.add_histograms(p_one integer[], p_other integer[])
returns integer[]
language plpgsql immutable
as $$
declare
    v_sums integer[] := p_one;
begin
    for i in 1 .. cardinality(p_other) loop
        v_sums[i] := v_sums[i] + p_other[i];
    end loop;
    return v_sums;
end $$;
