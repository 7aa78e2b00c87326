-- Of the places of one tenant on an endless line of rounds (p_weight places from p_place on in
-- each round of p_round), how many lie below p_end.
create or replace function jobforge_private.places_below(
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
