-- Locks jobs that were not started by their expires_at, for the reaper and for a claim that meets
-- one of them: they are canceled, never run. Rows that somebody is at work on are skipped.
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
