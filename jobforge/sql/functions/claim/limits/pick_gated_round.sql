-- Picks jobs with a gate for one round of a claim, tenant by tenant in the order of p_heads, up to
-- the quota of each and p_limit in all. Returns the heads with what is left of their quotas, the
-- gate at which the next claim starts, and `exhausted`: how many tenants have no ungated job, and
-- no other job that may start. Called by pick_round. Locks jobs and limits, as pick_gated_jobs
-- does.
create or replace function jobforge_private.pick_gated_round(
    p_queue text,
    p_limit integer,
    p_definitions text[],
    p_limited jobforge.limited,
    p_is_even boolean,
    inout gate text,
    inout heads jobforge.tenant_head[],
    inout groups integer,
    out picked tid[],
    out corrected bigint,
    out exhausted integer
)
language plpgsql
as $$
declare
    v_head jobforge.tenant_head;
    v_rows tid[];
    v_corrected bigint;
    v_taken jsonb := '{}';  -- by subject: jobs picked in this round, which do not run yet
    v_is_exhausted boolean := false;
begin
    picked := '{}';
    corrected := 0;
    exhausted := 0;
    for i in 1 .. cardinality(heads) loop
        exit when cardinality(picked) >= p_limit or groups <= 0;
        continue when heads[i].quota <= 0;
        v_head := case when not p_is_even
                        then jobforge_private.find_tenant_head(p_queue, heads[i].tenant_id) end;
        select g.picked, g.cursor_gate, g.groups, g.taken, g.corrected, g.is_exhausted
          into v_rows, gate, groups, v_taken, v_corrected, v_is_exhausted
          from jobforge_private.pick_gated_jobs(
                   p_queue, heads[i].tenant_id,
                   least(heads[i].quota, p_limit - cardinality(picked)),
                   p_definitions, p_limited, v_head.rank, v_head.run_at,
                   gate, groups, v_taken) as g;
        heads[i].quota := heads[i].quota - cardinality(v_rows);
        picked := picked || v_rows;
        corrected := corrected + v_corrected;
        exhausted := exhausted
            + (v_is_exhausted and not p_is_even and v_head is null)::integer;
    end loop;
end $$;
