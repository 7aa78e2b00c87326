-- Refuses an enqueue that would exceed a tenant's pending limit. The new jobs get IDs from
-- p_first_id on. A limit up to 10,000 is exact. If a tenant has more than 10,000 jobs, as a rule
-- dead ones, the newest 10,000 are counted each time; the count of the others is remembered in this
-- session for five seconds, or for twenty times as long as it took, a minute at most. Under a limit
-- above 10,000, the session remembers all that it counted, and counts only jobs with later IDs.
-- Counts committed rows and those of this transaction; two open transactions do not see each
-- other's jobs. Called by insert_jobs and insert_payloads. Raises JF008 with the number of pending
-- jobs.
create or replace function jobforge_private.check_pending_limit(
    p_tenant_id uuid,
    p_limit integer,
    p_more integer,
    p_first_id uuid
) returns void
language plpgsql
as $$
declare
    v_first uuid := jobforge_private.nth_id(p_first_id, 0);
    v_earlier jobforge.pending_count := jobforge_private.load_pending_count(p_tenant_id, v_first);
    v_later record;
    v_pending bigint;
begin
    if v_earlier.before is null then
        v_earlier := jobforge_private.count_earlier_pending(p_tenant_id, p_limit, v_first);
    end if;
    select count(*) as jobs, count(*) filter (where p.id < v_first) as before_first into v_later
      from (select j.id from jobforge.jobs as j
             where j.tenant_id = p_tenant_id and j.id >= v_earlier.before
               and j.state in ('scheduled', 'blocked', 'queued')
             limit p_limit + 1::bigint) as p;
    v_pending := v_earlier.jobs + v_later.jobs;
    if v_pending + p_more > p_limit then
        perform jobforge_private.refuse('JF008',
            format('The tenant has %s pending jobs; the limit is %s', v_pending, p_limit),
            jsonb_build_object('depth', v_pending, 'limit', p_limit));
    end if;
    if p_limit > 10000 then
        v_earlier.jobs := v_earlier.jobs + v_later.before_first;
        v_earlier.before := v_first;
    end if;
    -- Up to 10,000 jobs, none is earlier than those that are counted each time.
    if v_earlier.before > '00000000-0000-0000-0000-000000000000' then
        perform jobforge_private.store_pending_count(p_tenant_id, v_earlier);
    end if;
end $$;
