-- Finds the heads of a queue's tenants again by starting at the heads of the last full scan
-- (`scanned`): everything before them was dead index entries. Also finds jobs with a higher
-- priority than the former head, and one unknown tenant between every two known ones. Returns the
-- heads of tenants that have a job now. All known tenants stay in `scanned`, so that the next job
-- of a tenant without jobs is found without passing its dead entries. A job is missed until the
-- next full scan if it has the same priority as the former head, was due before it, and was
-- committed since.
-- Called by plan_round. Takes no locks.
create or replace function jobforge_private.rescan_ready_tenants(p_queue text)
returns jobforge.tenant_heads
language plpgsql
as $$
declare
    v_scanned jobforge.tenant_heads := jobforge_private.load_heads('scanned', p_queue);
    v_found jobforge.tenant_head[];
    v_new jobforge.tenant_head[];
begin
    if v_scanned.tenants is null then
        return null;
    end if;
    v_found := array(
        select row(coalesce(h.tenant_id, f.tenant_id), coalesce(h.rank, f.rank),
                   coalesce(h.run_at, f.run_at), coalesce(h.id, f.id), 0, null)
                   ::jobforge.tenant_head
          from unnest(v_scanned.tenants, v_scanned.ranks, v_scanned.run_ats, v_scanned.ids)
               as w(tenant_id, rank, run_at, id)
          left join lateral (
            select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id
              from jobforge.jobs as j
             where j.queue = p_queue and j.tenant_id = w.tenant_id
               and j.state = 'queued' and j.gate is null
               and - j.priority::integer < w.rank
             order by - j.priority::integer, j.run_at, j.id
             limit 1) as h on true
          left join lateral (
            select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id
              from jobforge.jobs as j
             where j.queue = p_queue and j.tenant_id = w.tenant_id
               and j.state = 'queued' and j.gate is null
               and (- j.priority::integer, j.run_at, j.id)
                   >= (w.rank, to_timestamp(w.run_at), w.id)
             order by - j.priority::integer, j.run_at, j.id
             limit 1) as f on h.id is null
         where coalesce(h.id, f.id) is not null);
    v_new := array(
        select row(n.tenant_id, n.rank, n.run_at, n.id, 0, null)::jobforge.tenant_head
          from (select t.tenant_id, lag(t.tenant_id) over (order by t.tenant_id) as previous
                  from (select unnest(v_scanned.tenants) as tenant_id
                        union all
                        select 'ffffffff-ffff-ffff-ffff-ffffffffffff') as t) as g
         cross join lateral (
            select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id
              from jobforge.jobs as j
             where j.queue = p_queue and j.state = 'queued' and j.gate is null
               and j.tenant_id > coalesce(g.previous, '00000000-0000-0000-0000-000000000000')
               and j.tenant_id < g.tenant_id
             order by j.tenant_id, - j.priority::integer, j.run_at, j.id
             limit 1) as n);
    if v_new <> '{}' then
        perform jobforge_private.store_heads('scanned', p_queue, jobforge_private.pack_heads(
            v_new || jobforge_private.heads_from_cursor(
                v_scanned, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 2000)));
    end if;
    return jobforge_private.pack_heads(v_found || v_new);
end $$;
