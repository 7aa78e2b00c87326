-- Turns as places to remember, by tenant. No turns are empty arrays, not nulls, which mean that
-- nothing is remembered.
create or replace function jobforge_private.places_of(p_turns jobforge.turn[])
returns jobforge.places
language plpgsql
as $$
declare
    v_places jobforge.places;
begin
    select coalesce(array_agg(t.tenant_id), '{}'), coalesce(array_agg(t.rank), '{}'),
           coalesce(array_agg(date_part('epoch', t.run_at)), '{}'), coalesce(array_agg(t.id), '{}')
      into v_places
      from (select * from unnest(p_turns) as u order by u.tenant_id) as t;
    return v_places;
end $$;
