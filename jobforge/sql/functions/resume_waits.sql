-- Called for every event that is dispatched: jobs of the tenant that wait for it have it as their
-- step's result, and are due at once. An event is for those waits that were registered before it
-- was dispatched, and each wait takes one. Answers how many jobs went on. Locks them in order of
-- id; a job whose time is up at this moment has the event or not, never both.
create or replace function jobforge.resume_waits(
    p_tenant_id uuid,
    p_event_id uuid,
    p_name text,
    p_data jsonb
) returns integer
language plpgsql
as $$
declare
    v_now timestamptz;
    v_jobs uuid[];
begin
    v_jobs := array(
        select w.job_id
          from jobforge.waits as w
         where w.tenant_id = p_tenant_id and w.kind = 'event' and w.name = p_name
           and p_data @> w.match);
    if v_jobs = '{}' then
        return 0;
    end if;
    perform
       from jobforge.jobs as j
      where j.tenant_id = p_tenant_id and j.id = any (v_jobs)
      order by j.id
        for update;
    -- A later statement: one that was woken while we waited for its lock has no wait any more.
    v_now := jobforge.now();
    with ended as (
        delete from jobforge.waits as w
         where w.tenant_id = p_tenant_id and w.job_id = any (v_jobs) and w.kind = 'event'
           and w.name = p_name and p_data @> w.match
        returning w.job_id, w.lease, w.index, w.name
    ), stored as (
        insert into jobforge.steps (tenant_id, job_id, lease, at, index, kind, name, result)
        select p_tenant_id, e.job_id, e.lease, v_now, e.index, 'event', e.name,
               jsonb_build_object('id', p_event_id, 'data', p_data)
          from ended as e
        -- A worker may wait for a step that the job has: the first result stays.
        on conflict do nothing
    )
    select coalesce(array_agg(e.job_id), '{}') into v_jobs from ended as e;
    perform jobforge.hasten_rows(array(
        select j.ctid
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.id = any (v_jobs)));
    return cardinality(v_jobs);
end $$;
