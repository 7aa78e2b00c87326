-- The places of a full walk over a queue, with the tenants that an earlier one of this session knew
-- and that have no job now: the next one of theirs will be due from about now on (p_now). At most
-- 2,000 tenants. Called by take_turns.
create or replace function jobforge_private.known_places(
    p_queue text,
    p_turns jobforge.turn[],
    p_now timestamptz
) returns jobforge.places
language plpgsql
as $$
declare
    v_walked jobforge.places := jobforge_private.recall_places('walked', p_queue);
begin
    return jobforge_private.places_of(p_turns || array(
        select row(w.tenant_id, w.rank,
                   greatest(to_timestamp(w.run_at), p_now - interval '1 second'),
                   '00000000-0000-0000-0000-000000000000', 0, null)::jobforge.turn
          from unnest(v_walked.tenants, v_walked.ranks, v_walked.run_ats)
               as w(tenant_id, rank, run_at)
         where w.tenant_id not in (select t.tenant_id from unnest(p_turns) as t)
         limit greatest(0, 2000 - cardinality(p_turns))));
end $$;
