-- Turns as places to remember, by tenant.
create or replace function jobforge.places_of(p_turns jobforge.turn[]) returns jobforge.places
language plpgsql
as $$
declare
    v_places jobforge.places;
begin
    select array_agg(t.tenant_id), array_agg(t.rank), array_agg(date_part('epoch', t.run_at)),
           array_agg(t.id)
      into v_places
      from (select * from unnest(p_turns) as u order by u.tenant_id) as t;
    return v_places;
end $$;
