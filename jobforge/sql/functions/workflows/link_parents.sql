-- Makes jobs that insert_jobs just inserted as blocked wait for the parents that `after` names in
-- p_jobs. Parents that have finished count immediately: a job whose parents have all finished
-- becomes ready, and one whose parent did not succeed is canceled if that is its policy.
-- p_is_within: jobs of the same call are in the same workflow, if in any. Locks parents that are
-- not of the same call, as lock_parents does, and waits for one that is finishing. Raises JF004 for
-- an unknown parent, and JF012 outside READ COMMITTED for a parent that is not of the same call.
create or replace function jobforge_private.link_parents(
    p_tenant_id uuid,
    p_jobs jsonb,
    p_first_id uuid,
    p_skip integer[] default '{}',
    p_is_within boolean default true
) returns void
language plpgsql
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
declare
    v_edges jobforge.edge[];
    v_others uuid[];
    v_unknown uuid;
    v_doomed uuid[];
begin
    v_edges := array(
        select row(jobforge_private.nth_id(p_first_id, e.index), p.id,
                   jobforge_private.is_same_call(p.id, p_first_id),
                   coalesce(e.job ->> 'on_parent_failure', 'cancel'), 'blocked')::jobforge.edge
          from jsonb_array_elements(p_jobs) with ordinality as e(job, index)
         cross join lateral (
            select distinct a.id::uuid as id
              from jsonb_array_elements_text(e.job -> 'after') as a(id)) as p
         where e.index <> all (p_skip));
    v_others := array(select distinct e.parent_id from unnest(v_edges) as e where not e.is_new);
    if v_others <> '{}' then
        perform jobforge_private.require_read_committed('A job with parents (after)');
        perform jobforge_private.lock_parents(p_tenant_id, v_others);
        with parents as materialized (
            select p.id, coalesce(
                       (select j.state from jobforge.jobs as j
                         where j.tenant_id = p_tenant_id and j.id = p.id),
                       (select f.state from jobforge.finished_jobs as f
                         where f.tenant_id = p_tenant_id and f.id = p.id)) as state
              from unnest(v_others) as p(id)
        )
        select array_agg(row(e.child_id, e.parent_id, e.is_new, e.on_parent_failure,
                             coalesce(p.state, e.state))::jobforge.edge),
               (select u.id from parents as u where u.state is null limit 1)
          into v_edges, v_unknown
          from unnest(v_edges) as e
          left join parents as p on p.id = e.parent_id;
        if v_unknown is not null then
            perform jobforge_private.refuse('JF004', 'Parent job not found',
                jsonb_build_object('job_id', v_unknown, 'field', 'after'));
        end if;
    end if;

    insert into jobforge.dependencies (
           tenant_id, child_id, parent_id, created_at, on_parent_failure)
    select p_tenant_id, e.child_id, e.parent_id, jobforge_private.now(), e.on_parent_failure
      from unnest(v_edges) as e;
    insert into jobforge.awaited_jobs (tenant_id, waiter_id, job_id, is_within, on_parent_failure)
    select p_tenant_id, e.child_id, e.parent_id, e.is_new and p_is_within, e.on_parent_failure
      from unnest(v_edges) as e
     where e.state not in ('succeeded', 'canceled', 'dead')
        or e.state <> 'succeeded' and e.on_parent_failure = 'wait';
    if v_others <> '{}' then
        v_doomed := array(
            select distinct e.child_id from unnest(v_edges) as e
             where e.state in ('canceled', 'dead') and e.on_parent_failure = 'cancel');
        perform jobforge_private.unblock_jobs(
            array_fill(p_tenant_id, array[cardinality(v_edges)]),
            array(select e.child_id from unnest(v_edges) as e), v_doomed);
        perform jobforge_private.cancel_rows(array(
            select j.ctid from unnest(v_doomed) as d(id)
              join jobforge.jobs as j on j.tenant_id = p_tenant_id and j.id = d.id),
            'a parent was already dead or canceled');
    end if;
end $$;
