-- Schedulers call this with their decisions on pending_events: p_deliveries is an array of {id,
-- deliveries}, one per outbox row. A delivery is {trigger_id, outcome, reason, job}; `enqueued` has
-- the job to enqueue, as for enqueue_jobs. Removes the events from the outbox, enqueues the jobs
-- and stores the deliveries, all or nothing. Skips a row that is gone: another scheduler dispatched
-- it. A job that cannot be enqueued only makes its delivery fail. Resumes jobs that wait for one of
-- the events. Returns the number of events, and of deliveries by outcome. Locks the outbox rows in
-- order of ID, then those jobs. Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.record_deliveries(p_deliveries jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_tenant uuid := jobforge.tenant();
    v_now timestamptz := jobforge_private.now();
    v_first_id uuid := jobforge_private.uuid7();
    v_taken jobforge.outbox[];
    v_made jobforge.event_deliveries[];
begin
    perform jobforge_private.require_read_committed('record_deliveries');
    perform jobforge_private.check_bounded('deliveries', p_deliveries, null);
    if jsonb_typeof(p_deliveries) is distinct from 'array'
       or jsonb_array_length(p_deliveries) > 5000
       or jsonb_path_exists(p_deliveries, '$[*] ? (@.type() != "object")') then
        perform jobforge_private.refuse('JF002',
            'deliveries must be a JSON array of at most 5000 objects', '{"field": "deliveries"}');
    end if;
    v_taken := jobforge_private.take_outbox_rows(p_deliveries, v_tenant);
    v_made := jobforge_private.enqueue_deliveries(v_taken, p_deliveries);
    insert into jobforge.event_deliveries (
           tenant_id, id, event_id, trigger_id, event_at, at, job_id, replay, outcome, reason)
    select m.tenant_id, jobforge_private.nth_id(v_first_id, m.n), m.event_id, m.trigger_id,
           m.event_at, v_now, m.job_id, m.replay, m.outcome, left(m.reason, 2000)
      from unnest(v_made) with ordinality as m(
           tenant_id, id, event_id, trigger_id, event_at, at, job_id, replay, outcome, reason, n);
    -- Skips triggers that are being changed: the next delivery updates the time.
    update jobforge.triggers as t
       set last_fired_at = v_now
      from (select f.tenant_id, f.id from jobforge.triggers as f
             where (f.tenant_id, f.id) in (
                   select m.tenant_id, m.trigger_id from unnest(v_made) as m
                    where m.outcome = 'enqueued')
             order by f.tenant_id, f.id
               for update skip locked) as fired
     where t.tenant_id = fired.tenant_id and t.id = fired.id;
    perform jobforge_private.resume_by_events(v_taken);
    return jsonb_build_object('events', cardinality(v_taken)) || coalesce(
        (select jsonb_object_agg(c.outcome, c.n)
           from (select m.outcome, count(*) as n from unnest(v_made) as m group by 1) as c), '{}');
end $$;
