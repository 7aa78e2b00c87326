-- Resumes jobs that wait for events that are being dispatched. Locks all of these jobs first, in
-- order of (tenant_id, id), then handles each event. Called by record_deliveries.
create or replace function jobforge_private.resume_by_events(p_taken jobforge.outbox[]) returns void
language plpgsql
as $$
declare
    v_event record;
begin
    if not exists (select from jobforge.waits as w where w.kind = 'event') then
        return;
    end if;
    perform
       from (select distinct w.tenant_id, w.job_id
               from unnest(p_taken) as t
               join jobforge.events as e
                 on e.tenant_id = t.tenant_id and e.id = t.event_id and e.created_at = t.event_at
               join jobforge.waits as w
                 on w.tenant_id = e.tenant_id and w.kind = 'event' and w.name = e.name
              where e.data @> w.match
              order by w.tenant_id, w.job_id) as g
       join jobforge.jobs as j on j.tenant_id = g.tenant_id and j.id = g.job_id
        for update of j;
    for v_event in
        select e.tenant_id, e.id, e.name, e.data
          from unnest(p_taken) as t
          join jobforge.events as e
            on e.tenant_id = t.tenant_id and e.id = t.event_id and e.created_at = t.event_at
         order by e.id
    loop
        perform jobforge_private.resume_waits(v_event.tenant_id, v_event.id, v_event.name,
            v_event.data);
    end loop;
end $$;
