-- Makes revived jobs wait again for what they failed with: deletes the result of their last wait if
-- an event had timed out or a gathered job had failed. All other steps stay done. The caller has
-- locked the rows. Called by revive_rows.
create or replace function jobforge_private.reopen_waits(p_rows tid[]) returns void
language sql
as $$
    delete from jobforge.steps as s
     using (select j.tenant_id, j.id, max(w.at) as at
              from jobforge.jobs as j
              join jobforge.steps as w
                on w.tenant_id = j.tenant_id and w.job_id = j.id
               and w.kind in ('event', 'gather')
             where j.ctid = any (p_rows) and j.flags & 4 = 4
               and j.error ->> 'type' in ('EventTimeout', 'ChildFailed')
             group by j.tenant_id, j.id) as d
     where s.tenant_id = d.tenant_id and s.job_id = d.id and s.at = d.at
       and s.kind in ('event', 'gather')
$$;
