-- Locks jobs that were not started before their expires_at, in order of expiry, and returns their
-- rows. They are canceled, never run. Skips rows that others have locked. Called by the reaper, and
-- by a claim that finds an expired job.
create or replace function jobforge_private.lock_expired_rows(p_now timestamptz, p_limit integer)
returns tid[]
language plpgsql
as $$
declare
    v_tenant uuid := jobforge.tenant();
begin
    return array(
        select j.ctid
          from jobforge.jobs as j
         where j.expires_at is not null and j.started_at is null and j.expires_at <= p_now
           and j.state in ('scheduled', 'blocked', 'queued')
           and (v_tenant is null or j.tenant_id = v_tenant)
         order by j.expires_at
         limit p_limit
           for update skip locked);
end $$;
