-- Returns the tenants of which a job with a gate may be able to start in a queue, in order from the
-- cursor and then from the lowest ID on, p_limit at most. Checks the first tenants one by one; if
-- many of them have no room, counts all tenants at their cap at once and leaves them out of the
-- rest of the scan. Returns none while the queue is full. Takes no locks. Called by plan_round.
create or replace function jobforge_private.open_tenants(
    p_queue text,
    p_cursor uuid,
    p_limit integer,
    p_limited jobforge.limited
) returns uuid[]
language plpgsql
as $$
declare
    v_width integer := greatest(p_limit, 32);
    v_from uuid := p_cursor;
    v_below uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_is_after boolean := false;
    v_counts boolean := false;
    v_full uuid[] := '{}';
    v_seen uuid[];
    v_open uuid[] := '{}';
begin
    if p_limited.queue and jobforge_private.is_queue_full(p_queue) then
        return v_open;
    end if;
    loop
        v_seen := jobforge_private.scan_gated_tenants(
            p_queue, v_from, v_below, v_is_after, v_width, v_full);
        v_open := v_open || jobforge_private.tenants_with_room(p_queue, v_seen, p_limited);
        exit when cardinality(v_open) >= p_limit;
        if cardinality(v_seen) = v_width then
            v_from := v_seen[v_width];
            v_is_after := true;
            v_counts := p_limited.tenants;
            v_width := v_width * 4;
        else
            exit when v_below = p_cursor;
            v_from := '00000000-0000-0000-0000-000000000000';
            v_below := p_cursor;
            v_is_after := false;
        end if;
        v_full := case when v_counts then jobforge_private.full_tenants(v_from, v_below)
            else '{}' end;
    end loop;
    return v_open[: p_limit];
end $$;
