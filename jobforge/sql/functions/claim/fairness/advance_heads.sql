-- Returns the remembered heads, moved forward to the last job of each tenant in p_reached. The jobs
-- of a tenant are in order in p_reached. Called by pick_round.
create or replace function jobforge_private.advance_heads(
    p_heads jobforge.tenant_heads,
    p_reached jobforge.tenant_head[]
) returns jobforge.tenant_heads
language plpgsql
as $$
declare
    -- Array elements of a variable are assigned in place; those of a record's field are not.
    v_ranks integer[] := p_heads.ranks;
    v_run_ats double precision[] := p_heads.run_ats;
    v_ids uuid[] := p_heads.ids;
    v_head jobforge.tenant_head;
    v_at integer;
begin
    foreach v_head in array coalesce(p_reached, '{}') loop
        v_at := width_bucket(v_head.tenant_id, p_heads.tenants);
        v_ranks[v_at] := v_head.rank;
        v_run_ats[v_at] := date_part('epoch', v_head.run_at);
        v_ids[v_at] := v_head.id;
    end loop;
    return row(p_heads.tenants, v_ranks, v_run_ats, v_ids)::jobforge.tenant_heads;
end $$;
