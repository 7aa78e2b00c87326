-- Returns the heads of a full scan, and those of tenants that an earlier scan of this session found
-- and that have no job now: their next job will be due at about p_now or later. At most 2,000
-- tenants.
-- Called by remember_heads.
create or replace function jobforge_private.merge_known_heads(
    p_queue text,
    p_heads jobforge.tenant_head[],
    p_now timestamptz
) returns jobforge.tenant_heads
language plpgsql
as $$
declare
    v_scanned jobforge.tenant_heads := jobforge_private.load_heads('scanned', p_queue);
begin
    return jobforge_private.pack_heads(p_heads || array(
        select row(w.tenant_id, w.rank,
                   greatest(to_timestamp(w.run_at), p_now - interval '1 second'),
                   '00000000-0000-0000-0000-000000000000', 0, null)::jobforge.tenant_head
          from unnest(v_scanned.tenants, v_scanned.ranks, v_scanned.run_ats)
               as w(tenant_id, rank, run_at)
         where w.tenant_id not in (select t.tenant_id from unnest(p_heads) as t)
         limit greatest(0, 2000 - cardinality(p_heads))));
end $$;
