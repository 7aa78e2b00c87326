-- Ends the waits of these jobs for an event: the event becomes the result of each job's step, and
-- the job is due immediately. Skips a job that no longer waits for such an event. Returns how many
-- jobs were resumed. The caller has locked the jobs. Called by resume_waits and
-- resume_by_past_events.
create or replace function jobforge_private.resume_jobs(
    p_tenant_id uuid,
    p_jobs uuid[],
    p_event_id uuid,
    p_name text,
    p_data jsonb
) returns integer
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_jobs uuid[];
    v_result jsonb := jsonb_build_object('id', p_event_id, 'data', p_data);
    v_bytes integer := octet_length(v_result::text);
begin
    with ended as (
        delete from jobforge.waits as w
         where w.tenant_id = p_tenant_id and w.job_id = any (p_jobs) and w.kind = 'event'
           and w.name = p_name and p_data @> w.match
           and not jobforge_private.has_consumed_event(w.tenant_id, w.job_id, w.name, p_event_id)
        returning w.job_id, w.lease, w.index, w.name
    ), stored as (
        insert into jobforge.steps (tenant_id, job_id, lease, at, index, bytes, kind, name, result)
        select p_tenant_id, e.job_id, e.lease, v_now, e.index, v_bytes, 'event', e.name, v_result
          from ended as e
        -- The job may already have this step: the first result stays.
        on conflict do nothing
    )
    select coalesce(array_agg(e.job_id), '{}') into v_jobs from ended as e;
    perform jobforge_private.run_rows_now(array(
        select j.ctid
          from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.id = any (v_jobs)));
    return cardinality(v_jobs);
end $$;
