-- The tenants that have plain ready jobs in a queue, from the cursor on and round once, p_limit at
-- most, each with the place of its first one. `gated` tells whether the queue has any job under
-- limits that is ready. Called by take_turns.
create or replace function jobforge_private.find_turns(
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
    turns := jobforge_private.ready_tenants(p_queue, p_cursor, v_last, p_limit);
    if cardinality(turns) < p_limit then
        turns := turns || jobforge_private.ready_tenants(
            p_queue, v_first, p_cursor, p_limit - cardinality(turns));
    end if;
    gated := exists (
        select from jobforge.jobs as j
         where j.queue = p_queue and j.state = 'queued' and j.gate is not null);
end $$;
