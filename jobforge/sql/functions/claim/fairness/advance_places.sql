-- The places moved on to the jobs that a claim reached, of which each tenant's come in order.
create or replace function jobforge_private.advance_places(
    p_places jobforge.places,
    p_reached jobforge.turn[]
) returns jobforge.places
language plpgsql
as $$
declare
    -- Elements of a variable are assigned in place; those of a record's field are not.
    v_ranks integer[] := p_places.ranks;
    v_run_ats double precision[] := p_places.run_ats;
    v_ids uuid[] := p_places.ids;
    v_turn jobforge.turn;
    v_at integer;
begin
    foreach v_turn in array coalesce(p_reached, '{}') loop
        v_at := width_bucket(v_turn.tenant_id, p_places.tenants);
        v_ranks[v_at] := v_turn.rank;
        v_run_ats[v_at] := date_part('epoch', v_turn.run_at);
        v_ids[v_at] := v_turn.id;
    end loop;
    return row(p_places.tenants, v_ranks, v_run_ats, v_ids)::jobforge.places;
end $$;
