-- Divides p_limit jobs between the tenants in `heads` by weight and returns their quotas: weighted
-- round-robin from the cursor on, in rounds in which each tenant has `weight` consecutive slots.
-- p_is_even: all weights are equal. Returns the cursor for the next claim: the tenant of the last
-- slot, and how many slots of its round it has used. Called by plan_round.
create or replace function jobforge_private.divide_round(
    inout heads jobforge.tenant_head[],
    p_limit integer,
    p_is_even boolean,
    inout cursor_tenant uuid,
    inout cursor_served bigint
)
language plpgsql
as $$
declare
    v_divided record;
begin
    if not p_is_even then
        v_divided := jobforge_private.divide_by_weight(
            heads, p_limit, cursor_tenant, cursor_served);
        heads := v_divided.heads;
        cursor_tenant := v_divided.cursor_tenant;
        cursor_served := v_divided.cursor_served;
        return;
    end if;
    -- One tenant is the usual case, and needs no query.
    if cardinality(heads) = 1 then
        heads[1].quota := p_limit;
    else
        heads := jobforge_private.divide_evenly(heads, p_limit, cursor_tenant);
    end if;
    cursor_tenant := heads[(p_limit - 1) % cardinality(heads) + 1].tenant_id;
    cursor_served := 1;
end $$;
