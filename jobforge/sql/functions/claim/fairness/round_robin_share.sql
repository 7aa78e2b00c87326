-- Returns how many of the first p_end slots of the round-robin sequence belong to one tenant. The
-- sequence repeats rounds of p_round slots; the tenant has p_weight slots of each, from p_place on.
-- Called by divide_round.
create or replace function jobforge_private.round_robin_share(
    p_end bigint,
    p_place bigint,
    p_weight bigint,
    p_round bigint
) returns bigint
language sql immutable
as $$
    select p_end / p_round * p_weight
         + greatest(0, least(p_weight, p_end % p_round - p_place))
$$;
