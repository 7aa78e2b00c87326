-- Locks those of some jobs that are unfinished or dead, so that they do not finish before it is
-- stored which jobs wait for them, and sets the flag that jobs wait for them. Locks jobs that are
-- not blocked first, then blocked ones, each group in order of ID, because a function that finishes
-- a job locks its blocked children after it. Called by link_parents, lock_relatives and
-- wait_for_jobs.
create or replace function jobforge_private.lock_parents(p_tenant_id uuid, p_jobs uuid[])
returns void
language plpgsql
as $$
declare
    v_rows tid[] := '{}';
    v_is_blocked boolean;
begin
    foreach v_is_blocked in array array[false, true] loop
        v_rows := v_rows || array(
            select j.row_id
              from (select distinct g.id from unnest(p_jobs) as g(id) order by g.id) as w
             cross join lateral (
                select q.ctid as row_id from jobforge.jobs as q
                 where q.tenant_id = p_tenant_id and q.id = w.id
                   and (q.state || '' = 'blocked') = v_is_blocked
                   for update) as j);
    end loop;
    update jobforge.jobs as j
       set flags = j.flags | 2
     where j.ctid = any (v_rows) and j.flags & 2 = 0
       and j.state in ('scheduled', 'blocked', 'queued', 'running', 'dead');
end $$;
