-- Requests a cancel of running jobs and notifies their workers. Returns how many. The caller has
-- locked the rows.
create or replace function jobforge_private.request_cancel(p_rows tid[], p_reason text)
returns bigint
language plpgsql
as $$
declare
    v_requested bigint;
begin
    with asked as (
        update jobforge.jobs as j
           set cancel_requested_at = jobforge_private.now(), cancel_reason = p_reason
         where j.ctid = any (p_rows) and j.state || '' = 'running'
        returning j.worker_id
    )
    select coalesce(sum(a.jobs), 0) into v_requested
      from (select count(*) as jobs,
                   jobforge_private.notify_channel('jobforge:worker:' || d.worker_id)
              from asked as d group by d.worker_id) as a;
    return v_requested;
end $$;
