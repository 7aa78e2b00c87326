-- Returns the tenants that have ungated ready jobs in a queue, with the head of each: p_limit at
-- most, in order of ID from the cursor, then from the lowest ID up to the cursor. `gated` is
-- whether the queue has ready jobs with a gate. Called by plan_round. Takes no locks.
create or replace function jobforge_private.find_ready_tenants(
    p_queue text,
    p_limit integer,
    p_cursor uuid,
    out heads jobforge.tenant_head[],
    out gated boolean
)
language plpgsql
as $$
declare
    v_first constant uuid := '00000000-0000-0000-0000-000000000000';
    v_last constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
begin
    heads := jobforge_private.scan_ready_tenants(p_queue, p_cursor, v_last, p_limit);
    if cardinality(heads) < p_limit then
        heads := heads || jobforge_private.scan_ready_tenants(
            p_queue, v_first, p_cursor, p_limit - cardinality(heads));
    end if;
    gated := exists (
        select from jobforge.jobs as j
         where j.queue = p_queue and j.state = 'queued' and j.gate is not null);
end $$;
