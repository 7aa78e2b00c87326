-- Returns a page of a tenant's dead jobs in groups with one fingerprint: they failed with the same
-- kind of error. The group with the newest job comes first; that job is its sample, and p_before is
-- the sample of the last group of the previous page. All fields of the filter are optional, and all
-- given ones must match: definition, queue, since (a time: died then or later). Raises JF001,
-- JF002, JF006, JF014.
--
-- `build` is the build of the worker where the sample died; it is known for a day after the worker
-- ended. `has_recurred`: that build is the one that resolved the failure, or a later one.
--
-- Costs one index probe for each fingerprint of the tenant, up to 10,000, and for each group on the
-- page reads its newest 10,000 jobs at most: counts go no further. Jobs that died without an error
-- are in no group.
create or replace function jobforge.list_failures(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    fingerprint text, definition text, jobs bigint, first_seen timestamptz, last_seen timestamptz,
    sample_job_id uuid, error jsonb, note text, snoozed_until timestamptz, resolved_in text,
    versions integer[], hourly integer[], build text, has_recurred boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_definition text;
    v_queue text;
    v_since timestamptz;
begin
    perform jobforge_private.check_limit(p_limit, 200);
    perform jobforge_private.check_filter(p_filter, '{definition,queue}', '{since}');
    v_definition := p_filter ->> 'definition';
    v_queue := p_filter ->> 'queue';
    v_since := (p_filter ->> 'since')::timestamptz;
    return query
    with paged as materialized (
        select g.fingerprint, s.id, s.lease, s.finished_at, s.definition, s.error
          from jobforge_private.dead_fingerprints(v_tenant) as g
         cross join lateral (
            select n.id, n.lease, n.finished_at, n.definition, n.error
              from (select j.id, j.lease, j.finished_at, j.definition, j.error, j.queue
                      from jobforge.jobs as j
                     where j.tenant_id = v_tenant and j.state = 'dead'
                       and j.fingerprint = g.fingerprint
                     order by j.id desc
                     limit 10000) as n
             where (v_queue is null or n.queue = v_queue)
               and (v_since is null or n.finished_at >= v_since)
             limit 1) as s
         where (p_before is null or s.id < p_before)
           and (v_definition is null or s.definition = v_definition)
         order by s.id desc
         limit p_limit
    )
    select p.fingerprint, p.definition, c.jobs, c.first_seen, c.last_seen, p.id,
           jobforge_private.readable(p.error, 67108864 / p_limit), k.note, k.snoozed_until,
           k.resolved_in, c.versions, c.hourly, r.build,
           coalesce((select min(w.started_at) from jobforge.workers as w where w.build = r.build)
                    >= (select min(w.started_at) from jobforge.workers as w
                         where w.build = k.resolved_in), false)
      from paged as p
     cross join lateral jobforge_private.count_dead_jobs(
               v_tenant, p.fingerprint, v_queue, v_since) as c
      left join lateral (
        select w.build
          from jobforge.attempts as a
          join jobforge.workers as w on w.id = a.worker_id
         where a.tenant_id = v_tenant and a.job_id = p.id and a.lease = p.lease
           and a.ended_at >= p.finished_at and a.ended_at < p.finished_at + interval '1 day'
         limit 1) as r on true
      left join jobforge.failure_notes as k
        on k.tenant_id = v_tenant and k.fingerprint = p.fingerprint
     order by p.id desc;
end $$;
