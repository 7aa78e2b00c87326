-- Locks those of some jobs that can be canceled and are not blocked, in order of ID, and returns
-- their rows. Called by lock_jobs.
create or replace function jobforge_private.lock_unblocked_jobs(p_tenant_id uuid, p_ids uuid[])
returns tid[]
language plpgsql
as $$
begin
    return array(
        select j.row_id
          from unnest(array(select i from unnest(p_ids) as i order by i)) as p(id)
         cross join lateral (
            select q.ctid as row_id
              from jobforge.jobs as q
             where q.tenant_id = p_tenant_id and q.id = p.id and q.state || '' <> 'blocked'
               and q.cancel_requested_at is null
               for update) as j);
end $$;
