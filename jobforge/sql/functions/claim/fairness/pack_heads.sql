-- Returns heads as parallel arrays in order of tenant, the form in which a session stores them. No
-- heads become empty arrays: nulls would mean that nothing is stored.
create or replace function jobforge_private.pack_heads(p_heads jobforge.tenant_head[])
returns jobforge.tenant_heads
language plpgsql
as $$
declare
    v_packed jobforge.tenant_heads;
begin
    select coalesce(array_agg(t.tenant_id), '{}'), coalesce(array_agg(t.rank), '{}'),
           coalesce(array_agg(date_part('epoch', t.run_at)), '{}'), coalesce(array_agg(t.id), '{}')
      into v_packed
      from (select * from unnest(p_heads) as u order by u.tenant_id) as t;
    return v_packed;
end $$;
