-- Deletes heartbeats of ended leases, p_limit at most. Skips rows that other transactions hold.
-- Returns how many. Called by sweep.
create or replace function jobforge_private.sweep_heartbeats(p_now timestamptz, p_limit integer)
returns bigint
language plpgsql
as $$
declare
    v_swept bigint;
begin
    delete from jobforge.heartbeats as h
     where h.ctid = any (array(
           select e.ctid
             from jobforge.heartbeats as e
            where e.expires_at < p_now
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.id = e.job_id
                                 and j.state || '' = 'running' and j.lease = e.lease)
            limit p_limit for update skip locked));
    get diagnostics v_swept = row_count;
    return v_swept;
end $$;
