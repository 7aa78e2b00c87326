-- Finds the first plain jobs of a queue's tenants again, starting at the places where the last full
-- walk found them: what lay below was dead then. Jobs of a higher priority than the first had are
-- found too, and of tenants that are not known, one between every two that are. `places` has the
-- tenants that have a job now; all known ones stay remembered (`walked`), so that the next job of
-- one that had none is found without passing its dead entries. Not found until the next full walk:
-- a job of the same priority that was due before all others of its tenant, and became visible
-- since. Called by take_turns.
create or replace function jobforge_private.walk_again(p_queue text) returns jobforge.places
language plpgsql
as $$
declare
    v_walked jobforge.places := jobforge_private.recall_places('walked', p_queue);
    v_found jobforge.turn[];
    v_new jobforge.turn[];
begin
    if v_walked.tenants is null then
        return null;
    end if;
    v_found := array(
        select row(coalesce(h.tenant_id, f.tenant_id), coalesce(h.rank, f.rank),
                   coalesce(h.run_at, f.run_at), coalesce(h.id, f.id), 0, null)::jobforge.turn
          from unnest(v_walked.tenants, v_walked.ranks, v_walked.run_ats, v_walked.ids)
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
        select row(n.tenant_id, n.rank, n.run_at, n.id, 0, null)::jobforge.turn
          from (select t.tenant_id, lag(t.tenant_id) over (order by t.tenant_id) as above
                  from (select unnest(v_walked.tenants) as tenant_id
                        union all
                        select 'ffffffff-ffff-ffff-ffff-ffffffffffff') as t) as g
         cross join lateral (
            select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id
              from jobforge.jobs as j
             where j.queue = p_queue and j.state = 'queued' and j.gate is null
               and j.tenant_id > coalesce(g.above, '00000000-0000-0000-0000-000000000000')
               and j.tenant_id < g.tenant_id
             order by j.tenant_id, - j.priority::integer, j.run_at, j.id
             limit 1) as n);
    if v_new <> '{}' then
        perform jobforge_private.keep_places('walked', p_queue, jobforge_private.places_of(
            v_new || jobforge_private.turns_from(
                v_walked, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 2000)));
    end if;
    return jobforge_private.places_of(v_found || v_new);
end $$;
