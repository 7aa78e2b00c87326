-- Applies an operation to some jobs of a tenant, and returns the IDs of those that still match; the
-- others have changed in the meantime. p_rate spreads revived jobs over time. Adds an entry to the
-- timeline of each job. Locks the jobs in order of ID; jobs to cancel as lock_jobs does. Called by
-- step_operation.
create or replace function jobforge_private.apply_operation(
    o jobforge.operations,
    p_ids uuid[],
    p_rate double precision
) returns uuid[]
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_reason text := o.options ->> 'reason';
    f jobforge.job_filter := jobforge_private.read_filter(o.filter);
    v_rows tid[];
    v_ids uuid[];
begin
    v_rows := case when o.kind = 'cancel' then jobforge_private.lock_jobs(o.tenant_id, p_ids)
        else array(
        select j.row_id
          from unnest(array(select i from unnest(p_ids) as i order by i)) as p(id)
         cross join lateral (
            select q.ctid as row_id
              from jobforge.jobs as q
             where q.tenant_id = o.tenant_id and q.id = p.id
               for update) as j) end;
    -- Compared again under the lock, because the jobs may have changed. Materialized, so that the
    -- comparison does not decide by which index the rows are found.
    with locked as materialized (
        select q.ctid as row_id, q.id, jobforge_private.matches_operation(q, o.kind, f) as is_wanted
          from jobforge.jobs as q
         where q.ctid = any (v_rows)
    )
    select array_agg(l.row_id), array_agg(l.id) into v_rows, v_ids
      from locked as l
     where l.is_wanted;
    if v_rows is null then
        return '{}';
    end if;
    insert into jobforge.job_events (tenant_id, job_id, at, kind, actor, data)
    select o.tenant_id, j.id, v_now,
           case when o.kind in ('cancel', 'discard') then 'cancel_requested' else 'retried' end,
           o.created_by,
           jsonb_strip_nulls(jsonb_build_object('operation_id', o.id, 'reason', v_reason))
      from unnest(v_ids) as j(id);
    case o.kind
        when 'cancel' then
            perform jobforge_private.request_cancel(v_rows, v_reason);
            perform jobforge_private.cancel_rows(v_rows, v_reason);
        when 'discard' then
            perform jobforge_private.cancel_rows(v_rows, coalesce(v_reason, 'discarded'));
        else
            perform jobforge_private.run_rows_now(v_rows);
            perform jobforge_private.revive_rows(
                v_rows, (o.options ->> 'attempts')::integer, p_rate);
    end case;
    return v_ids;
end $$;
