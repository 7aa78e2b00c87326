-- Applications call this to redrive the dead jobs of a tenant that match a filter (matching_jobs;
-- its state is always dead), p_limit at most. Returns how many; call again until it returns 0.
-- p_rate spreads them, in jobs per second; p_attempts is their new allowance. With p_dry_run it
-- only counts, up to p_limit. Locks in order of ID. Raises JF001, JF002, JF006, JF014, and JF012
-- outside READ COMMITTED.
create or replace function jobforge.retry_jobs(
    p_filter jsonb default '{}',
    p_rate double precision default null,
    p_attempts integer default null,
    p_limit integer default 1000,
    p_dry_run boolean default false,
    p_tenant_id uuid default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_filter jsonb := p_filter || '{"state": "dead"}';
    v_revived bigint;
begin
    perform jobforge_private.require_read_committed('retry_jobs');
    perform jobforge_private.check_limit(p_limit, 10000);
    perform jobforge_private.check_bounded('filter', p_filter);
    perform jobforge_private.read_filter(v_filter);
    if p_rate not between 0.001 and 100000 then
        perform jobforge_private.refuse('JF002', 'rate must be between 0.001 and 100000',
            '{"field": "rate"}');
    elsif p_attempts not between 1 and 1000 then
        perform jobforge_private.refuse('JF002', 'attempts must be between 1 and 1000',
            '{"field": "attempts"}');
    elsif p_dry_run then
        return (select count(*) from jobforge_private.matching_jobs(
                    v_tenant, v_filter, p_limit, p_only_retryable => true));
    end if;
    v_revived := jobforge_private.revive_rows(array(
        select j.ctid
          from unnest(array(
                   select jobforge_private.matching_jobs(
                              v_tenant, v_filter, p_limit, p_only_retryable => true)
                    order by 1)) as m(id)
         cross join lateral (
            select q.ctid
              from jobforge.jobs as q
             where q.tenant_id = v_tenant and q.id = m.id and q.state || '' = 'dead'
               for update) as j), p_attempts, p_rate);
    perform jobforge_private.audit(v_tenant, 'jobs.retry', null,
        jsonb_build_object('filter', p_filter, 'rate', p_rate, 'jobs', v_revived));
    return v_revived;
end $$;
