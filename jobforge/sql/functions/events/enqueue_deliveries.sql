-- Enqueues the jobs of the deliveries of outbox rows, tenant by tenant, so that one tenant's
-- failures do not affect another. Returns the deliveries to store: those that record_deliveries was
-- given, with the outcome of the enqueue in place of `enqueued`. Called by record_deliveries.
create or replace function jobforge_private.enqueue_deliveries(
    p_taken jobforge.outbox[],
    p_deliveries jsonb
) returns jobforge.event_deliveries[]
language plpgsql
set enable_hashjoin = on
as $$
declare
    v_wanted jsonb;
    v_batch record;
    v_jobs jsonb := '{}';
begin
    select coalesce(jsonb_agg(
               to_jsonb(t.*) || jsonb_build_object(
                   'trigger_id', r.trigger_id, 'outcome', r.outcome, 'reason', r.reason,
                   'job', r.job)), '[]')
      into v_wanted
      from unnest(p_taken) as t
      join jsonb_to_recordset(p_deliveries) as d(id uuid, deliveries jsonb) on d.id = t.id
     cross join lateral jsonb_to_recordset(d.deliveries) as r(
           trigger_id uuid, outcome text, reason text, job jsonb);
    for v_batch in
        select (w.wanted ->> 'tenant_id')::uuid as tenant_id,
               array_agg(w.n order by w.n) as numbers,
               jsonb_agg(w.wanted -> 'job' order by w.n) as jobs,
               array_agg(w.wanted ->> 'event_id' order by w.n) as events
          from jsonb_array_elements(v_wanted) with ordinality as w(wanted, n)
         where w.wanted ->> 'outcome' = 'enqueued'
         group by 1
         order by 1
    loop
        select v_jobs || jsonb_object_agg(v_batch.numbers[j.index + 1], to_jsonb(j.*))
          into v_jobs
          from jobforge_private.try_enqueue_triggered(
                   v_batch.tenant_id, v_batch.jobs, 'event', v_batch.events) as j;
    end loop;
    return array(
        select row(x.tenant_id, x.id, x.event_id, x.trigger_id, x.event_at, null, j.job_id,
                   x.replay,
                   case j.status when 'created' then 'enqueued' when 'existing' then 'deduplicated'
                                 else coalesce(j.status, x.outcome) end,
                   coalesce(j.reason, x.reason))::jobforge.event_deliveries
          from jsonb_array_elements(v_wanted) with ordinality as w(wanted, n)
         cross join lateral jsonb_to_record(w.wanted) as x(
               tenant_id uuid, id uuid, event_id uuid, trigger_id uuid, event_at timestamptz,
               replay integer, outcome text, reason text)
          left join lateral jsonb_to_record(v_jobs -> w.n::text) as j(
               job_id uuid, status text, reason text) on true
         order by w.n);
end $$;
