-- Does to some jobs of a tenant what an operation is for, and answers to which; the others have
-- come into another state meanwhile. p_rate spreads jobs that are revived. Each has it in its
-- timeline. Called by step_operation. Locks the jobs in order of id, and those that it cancels as
-- lock_jobs does.
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
    -- Compared again under the lock: what was found may have moved on. Materialized, so that the
    -- comparison does not choose the index by which rows are found.
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
