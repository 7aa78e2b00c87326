-- Cancels jobs that have expired, for claims and for the reaper. The rows are locked by the caller.
-- Jobs that wait for one of them may be in the hands of somebody's transaction. No claim waits for
-- that: those that others wait for are then left to the next call. Answers how many went.
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
