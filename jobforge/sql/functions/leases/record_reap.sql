-- Stores the time of a call of reap_jobs and the outage that it found: for one tenant, or for all
-- with null. Writes at most once per second. Skips a row that another transaction holds, and waits
-- 100 ms at most for one that is being inserted. Called by reap_jobs as its last step.
create or replace function jobforge_private.record_reap(
    p_tenant uuid,
    p_outage_from timestamptz,
    p_outage_until timestamptz
) returns void
language plpgsql
set lock_timeout = '100ms'
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_tenant uuid := coalesce(p_tenant, '00000000-0000-0000-0000-000000000000');
begin
    update jobforge.reaper as r
       set reaped_at = greatest(r.reaped_at, v_now),
           outage_from = case when p_outage_until > coalesce(r.outage_until, '-infinity')
                              then p_outage_from else r.outage_from end,
           outage_until = greatest(r.outage_until, p_outage_until)
     where r.ctid = any (array(
           select k.ctid from jobforge.reaper as k
            where k.tenant_id = v_tenant
              and (k.reaped_at is null or k.reaped_at <= v_now - interval '1 second')
              for update skip locked));
    if not found and not exists (
        select from jobforge.reaper as r where r.tenant_id = v_tenant)
    then
        insert into jobforge.reaper (tenant_id, reaped_at, outage_from, outage_until)
        values (v_tenant, v_now, p_outage_from, p_outage_until)
            on conflict do nothing;
    end if;
exception
    when lock_not_available then null;
end $$;
