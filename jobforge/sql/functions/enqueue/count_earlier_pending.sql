-- Counts the pending jobs of a tenant that check_pending_limit need not count again soon: all jobs
-- before p_first under a limit above 10,000, otherwise all but the newest 10,000. `until` is when
-- they must be counted again: later if the count was slow. Called by check_pending_limit.
create or replace function jobforge_private.count_earlier_pending(
    p_tenant_id uuid,
    p_limit integer,
    p_first uuid
) returns jobforge.pending_count
language plpgsql
as $$
declare
    v_start timestamptz := clock_timestamp();
    v_counted jobforge.pending_count;
begin
    v_counted.before := case when p_limit > 10000 then p_first else coalesce((
        select j.id from jobforge.jobs as j
         where j.tenant_id = p_tenant_id
         order by j.id desc
        offset 10000 limit 1), '00000000-0000-0000-0000-000000000000') end;
    select count(*) into v_counted.jobs from (
        select from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.id < v_counted.before
           and j.state in ('scheduled', 'blocked', 'queued')
         limit p_limit + 1::bigint) as pending;
    v_counted.until := clock_timestamp() + least(interval '1 minute', greatest(
        interval '5 seconds', 20 * (clock_timestamp() - v_start)));
    return v_counted;
end $$;
