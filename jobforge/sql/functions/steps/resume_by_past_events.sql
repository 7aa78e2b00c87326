-- Searches, for up to 100 waits that no scheduler has checked yet, for an event that was emitted
-- before the wait was registered. Registering the wait and dispatching the event may overlap, so
-- that neither transaction sees the other; this later one sees both. Each wait is checked once: the
-- oldest matching event among the newest 10,000 of that name ends it. Leaves jobs that are locked
-- to the next call. Locks the jobs in order of (tenant_id, id). Called by pending_events.
create or replace function jobforge_private.resume_by_past_events(p_tenant_id uuid) returns void
language plpgsql
as $$
declare
    v_wait record;
    v_event record;
begin
    if not exists (select from jobforge.waits as w where w.look_back_to is not null) then
        return;
    end if;
    for v_wait in
        select w.tenant_id, w.job_id, w.lease, w.name, w.match, w.look_back_to
          from jobforge.waits as w
          join jobforge.jobs as j on j.tenant_id = w.tenant_id and j.id = w.job_id
         where w.look_back_to is not null
           and (p_tenant_id is null or w.tenant_id = p_tenant_id)
         order by w.tenant_id, w.job_id
         limit 100
           for update of j skip locked
    loop
        select f.id, f.data into v_event
          from (select e.id, e.data
                  from (select n.id, n.data
                          from jobforge.events as n
                         where n.tenant_id = v_wait.tenant_id and n.name = v_wait.name
                           and n.created_at >= v_wait.look_back_to
                         order by n.id desc
                         limit 10000) as e
                 where e.data @> v_wait.match
                   and not jobforge_private.has_consumed_event(v_wait.tenant_id, v_wait.job_id,
                                                            v_wait.name, e.id)
                 order by e.id
                offset 0) as f
         -- Checked last and up to the first: the texts of 10,000 events can have 20 GB.
         where jobforge_private.is_bounded(f.data)
         order by f.id
         limit 1;
        if found then
            perform jobforge_private.resume_jobs(
                v_wait.tenant_id, array[v_wait.job_id], v_event.id, v_wait.name, v_event.data);
        else
            update jobforge.waits as w
               set look_back_to = null
             where w.tenant_id = v_wait.tenant_id and w.job_id = v_wait.job_id
               and w.lease = v_wait.lease;
        end if;
    end loop;
end $$;
