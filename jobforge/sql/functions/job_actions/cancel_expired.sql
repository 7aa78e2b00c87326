-- Cancels expired jobs, for claims and for the reaper. Returns how many. The caller has locked the
-- rows. Another transaction may have locked the jobs that wait for one of these. No claim waits for
-- that: jobs that others wait for are then left to the next call.
create or replace function jobforge_private.cancel_expired(p_rows tid[]) returns bigint
language plpgsql
set lock_timeout = '10ms'
as $$
begin
    return jobforge_private.cancel_rows(p_rows, 'expired');
exception
    when lock_not_available then
        return jobforge_private.cancel_rows(array(
            select j.ctid from jobforge.jobs as j
             where j.ctid = any (p_rows) and j.flags & 2 = 0), 'expired');
end $$;
