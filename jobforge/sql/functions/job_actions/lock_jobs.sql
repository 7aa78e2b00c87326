-- Locks those of some jobs that can be canceled, and returns their rows. Jobs that are not blocked
-- come first, in order of ID, then blocked ones in order of ID: a function that finishes a job
-- locks its blocked children after it, so all functions lock in the same direction. Jobs that wait
-- for these, and would be canceled or freed with them, are locked in the same pass. A job that
-- another transaction frees between the two statements is in neither; the function then releases
-- all locks and starts again. In the fifth round it locks such jobs in any order. Called by
-- cancel_jobs, cancel_nodes, apply_operation and other functions that cancel jobs.
create or replace function jobforge_private.lock_jobs(p_tenant_id uuid, p_ids uuid[]) returns tid[]
language plpgsql
as $$
declare
    v_rows tid[];
    v_blocked tid[];
begin
    for v_turn in 1 .. 5 loop
        begin
            v_rows := jobforge_private.lock_unblocked_jobs(p_tenant_id, p_ids);
            with recursive doomed as (
                select p.id, true as is_named from unnest(p_ids) as p(id)
                union
                select a.waiter_id, false
                  from doomed as d
                  join jobforge.awaited_jobs as a
                    on a.tenant_id = p_tenant_id and a.job_id = d.id
                 where a.on_parent_failure = 'cancel'
            ), concerned as (
                select d.id, d.is_named from doomed as d
                union all
                select a.waiter_id, false
                  from doomed as d
                  join jobforge.awaited_jobs as a
                    on a.tenant_id = p_tenant_id and a.job_id = d.id
                 where a.on_parent_failure = 'run'
            )
            select array_agg(j.row_id) filter (where d.is_named) into v_blocked
              from (select w.id, bool_or(w.is_named) as is_named from concerned as w
                     group by w.id order by w.id) as d
             cross join lateral (
                select q.ctid as row_id
                  from jobforge.jobs as q
                 where q.tenant_id = p_tenant_id and q.id = d.id and q.state || '' = 'blocked'
                   for update) as j;
            if v_turn = 5 then
                v_rows := jobforge_private.lock_unblocked_jobs(p_tenant_id, p_ids);
            elsif exists (
                   select from unnest(p_ids) as p(id)
                    cross join lateral (
                       select q.ctid as row_id
                         from jobforge.jobs as q
                        where q.tenant_id = p_tenant_id and q.id = p.id
                          and q.state || '' <> 'blocked' and q.cancel_requested_at is null
                       offset 0) as j
                    where j.row_id not in (select unnest(v_rows)))
            then
                raise sqlstate 'JF099';
            end if;
            return v_rows || coalesce(v_blocked, '{}');
        exception
            when sqlstate 'JF099' then null;  -- not JF000, which would catch all JF codes
        end;
    end loop;
end $$;
