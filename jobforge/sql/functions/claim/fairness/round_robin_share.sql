-- Returns how many of the first p_slots slots of the round-robin sequence belong to one tenant. The
-- sequence repeats rounds of p_slots_per_round slots; the tenant has p_weight slots of each, from
-- p_first_slot on. Called by divide_by_weight.
create or replace function jobforge_private.round_robin_share(
    p_slots bigint,
    p_first_slot bigint,
    p_weight bigint,
    p_slots_per_round bigint
) returns bigint
language sql immutable
as $$
    select p_slots / p_slots_per_round * p_weight
         + greatest(0, least(p_weight, p_slots % p_slots_per_round - p_first_slot))
$$;
