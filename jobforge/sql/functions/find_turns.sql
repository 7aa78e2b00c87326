-- The tenants that have ready jobs in a queue, from the cursor on and round once, p_limit at
-- most, each with the place of its first plain job (the far end if it has only jobs under
-- limits). `gated` tells whether the queue has any of the latter. Called by take_turns.
create or replace function jobforge.find_turns(
    p_queue text,
    p_limit integer,
    p_cursor uuid,
    out turns jobforge.turn[],
    out gated boolean
)
language plpgsql
as $$
declare
    v_first constant uuid := '00000000-0000-0000-0000-000000000000';
    v_last constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
begin
    turns := jobforge.ready_tenants(p_queue, p_cursor, v_last, p_limit);
    if cardinality(turns) < p_limit then
        turns := turns || jobforge.ready_tenants(
            p_queue, v_first, p_cursor, p_limit - cardinality(turns));
    end if;
    gated := exists (
        select from jobforge.jobs as j
         where j.queue = p_queue and j.state = 'queued' and j.gate is not null);
    if gated then
        turns := array(
            select row(coalesce(t.tenant_id, g.tenant_id), coalesce(t.rank, 32768),
                       coalesce(t.run_at, 'infinity'), coalesce(t.id, v_last), 0, t.row_id)
                       ::jobforge.turn
              from unnest(turns) as t
              full join (select * from jobforge.gated_tenants(p_queue, p_cursor, v_last, p_limit)
                         union all
                         select * from jobforge.gated_tenants(p_queue, v_first, p_cursor, p_limit)
                        ) as g
                using (tenant_id)
             order by coalesce(t.tenant_id, g.tenant_id) < p_cursor, 1
             limit p_limit);
    end if;
end $$;
