-- Inserts a row into heartbeats for each of these jobs that has none, so that the reaper can lock
-- it: a first heartbeat then waits for the reaper's transaction. The caller has locked the jobs.
-- Another transaction may be inserting a first heartbeat: waits 100 ms for each, for ten at most,
-- and leaves those without a row. Called by find_lost_leases.
create or replace function jobforge_private.reserve_heartbeats(p_rows tid[]) returns void
language plpgsql
set lock_timeout = '100ms'
as $$
declare
    v_row tid;
    v_left integer := 0;
begin
    begin
        with silent as materialized (
            select j.tenant_id, j.id, j.worker_id, j.lease, j.lease_expires_at
              from jobforge.jobs as j
              left join lateral (
                select true as is_present from jobforge.heartbeats as q
                 where q.tenant_id = j.tenant_id and q.job_id = j.id
                 limit 1) as h on true
             where j.ctid = any (p_rows) and h.is_present is null
        )
        insert into jobforge.heartbeats (tenant_id, job_id, worker_id, lease, expires_at)
        select s.tenant_id, s.id, s.worker_id, s.lease, s.lease_expires_at
          from silent as s
         order by s.tenant_id, s.id
            on conflict do nothing;
        return;
    exception
        when lock_not_available then null;
    end;
    -- In random order, so that not the same ten are left each time.
    for v_row in select r from unnest(p_rows) as r order by random() loop
        exit when v_left = 10;
        begin
            insert into jobforge.heartbeats (tenant_id, job_id, worker_id, lease, expires_at)
            select j.tenant_id, j.id, j.worker_id, j.lease, j.lease_expires_at
              from jobforge.jobs as j
             where j.ctid = v_row
                on conflict do nothing;
        exception
            when lock_not_available then v_left := v_left + 1;
        end;
    end loop;
end $$;
