-- Locks the head of each tenant by the row that the scan has just read, which saves a second index
-- probe where each tenant gets one job. Skips rows that others have changed or locked. Returns no
-- rows if some jobs have expired; then the caller uses pick_ready_jobs. Called by pick_round.
create or replace function jobforge_private.pick_first_jobs(
    p_queue text,
    p_heads jobforge.tenant_head[]
) returns tid[]
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_rows tid[] := array(select t.row_id from unnest(p_heads) as t);
begin
    v_rows := array(
        select case when (j.expires_at > v_now or j.started_at is not null) is not false
                    then j.ctid end
          from jobforge.jobs as j
         where j.ctid = any (v_rows)
           -- `state || ''`: see docs/query-plans.md.
           and j.queue = p_queue and j.state || '' = 'queued' and j.gate is null
           for update skip locked);
    return case when array_position(v_rows, null) is null then v_rows else '{}' end;
end $$;
