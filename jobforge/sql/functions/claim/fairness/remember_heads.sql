-- Stores the heads of a full scan in this session after two slow scans in a row, for two hundred
-- times as long as the scan took, 20 seconds at most. Returns the heads in the form in which they
-- are stored, and p_cursor with the times until which they count. Called by plan_round.
create or replace function jobforge_private.remember_heads(
    p_queue text,
    p_heads jobforge.tenant_head[],
    p_start timestamptz,
    p_cost_s double precision,
    inout cursor jsonb,
    out remembered jobforge.tenant_heads
)
language plpgsql
as $$
begin
    remembered := jobforge_private.pack_heads(p_heads);
    perform jobforge_private.store_heads(
        'scanned', p_queue,
        jobforge_private.merge_known_heads(p_queue, p_heads, jobforge_private.now()));
    cursor := cursor || jsonb_build_object(
        'idle_until', p_start + make_interval(secs => greatest(1, 100 * p_cost_s)),
        'heads_until', p_start + make_interval(secs => p_cost_s + least(20, 200 * p_cost_s)),
        'rescan_at', p_start);
end $$;
