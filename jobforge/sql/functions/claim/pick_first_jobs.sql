-- Locks the first plain job of each turn, by the row in which it was seen just now: where tenants
-- have one job each in a claim, that saves looking for it again. Rows that others have changed or
-- are claiming are skipped. Nothing when the long way has to be gone, as some have expired. Called
-- by pick_round.
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
           -- Not "state = 'queued'", which would invite the planner to look for ready jobs first.
           and j.queue = p_queue and j.state || '' = 'queued' and j.gate is null
           for update skip locked);
    return case when array_position(v_rows, null) is null then v_rows else '{}' end;
end $$;
