-- Returns, in random order, the outcomes of a settle whose completion needs no row that another
-- transaction has locked. Checks the blocked jobs that wait for a job that finishes, those that its
-- failure cancels, the workflows of all of them and around these, and the jobs that it gathers; not
-- hooks and webhooks, nor the workflows of canceled jobs. Locks the rows that are free and never
-- waits. The caller has locked the outcomes' jobs. Called by settle_in_parts.
create or replace function jobforge_private.lockable_outcomes(p_outcomes jsonb) returns jsonb[]
language plpgsql
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_stuck bigint[];
begin
    with recursive ended as materialized (
        select o.place, o.tenant_id, o.job_id, o.outcome = 'succeeded' as succeeded
          from rows from (jsonb_to_recordset(p_outcomes) as (
                   tenant_id uuid, job_id uuid, lease bigint, outcome text, final boolean))
               with ordinality as o(tenant_id, job_id, lease, outcome, final, place)
          join jobforge.jobs as j on j.tenant_id = o.tenant_id and j.id = o.job_id
         where j.state || '' = 'running' and j.lease = o.lease
           and (o.outcome in ('succeeded', 'canceled') or j.cancel_requested_at is not null
                or o.outcome not in ('snoozed', 'released')
                   and (coalesce(o.final, false) or j.attempt >= j.max_attempts))
    ), waiting as (
        select e.place, a.tenant_id, a.waiter_id as id, a.is_within,
               not e.succeeded and a.on_parent_failure = 'cancel' as is_doomed
          from ended as e
          join jobforge.awaited_jobs as a on a.tenant_id = e.tenant_id and a.job_id = e.job_id
         where e.succeeded or a.on_parent_failure <> 'wait'
        union
        select w.place, a.tenant_id, a.waiter_id, false, a.on_parent_failure = 'cancel'
          from waiting as w
          join jobforge.awaited_jobs as a on a.tenant_id = w.tenant_id and a.job_id = w.id
         where w.is_doomed and a.on_parent_failure <> 'wait'
    ), needed as materialized (
        select w.place, w.tenant_id, w.id, w.is_within and not w.is_doomed as continues
          from waiting as w
          join jobforge.jobs as j on j.tenant_id = w.tenant_id and j.id = w.id
         where j.state || '' = 'blocked'
        union
        select g.place, g.tenant_id, g.id, false
          from (select o.place, o.tenant_id, w.id::uuid as id
                  from rows from (jsonb_to_recordset(p_outcomes) as (
                           tenant_id uuid, outcome text, wait jsonb))
                       with ordinality as o(tenant_id, outcome, wait, place)
                 cross join lateral jsonb_array_elements_text(
                       case when o.outcome = 'snoozed' and jobforge_private.is_valid_wait(o.wait)
                            then o.wait -> 'jobs' end) as w(id)
                offset 0) as g
          join jobforge.jobs as j on j.tenant_id = g.tenant_id and j.id = g.id
    ), free_jobs as materialized (
        select j.tenant_id, j.id
          from (select distinct n.tenant_id, n.id from needed as n order by 1, 2) as n
          join jobforge.jobs as j on j.tenant_id = n.tenant_id and j.id = n.id
           for update of j skip locked
    ), within as (
        -- A workflow with another job to run does not finish, so its row is not needed.
        select e.place, m.tenant_id, m.workflow_id as id
          from ended as e
          join jobforge.workflow_jobs as m on m.tenant_id = e.tenant_id and m.job_id = e.job_id
         where not exists (select from needed as n where n.place = e.place and n.continues)
        union
        select i.place, w.tenant_id, w.parent_id
          from within as i
          join jobforge.workflows as w on w.tenant_id = i.tenant_id and w.id = i.id
         where w.parent_id is not null
    ), free_workflows as materialized (
        select w.tenant_id, w.id
          from (select distinct i.tenant_id, i.id from within as i order by 1, 2) as i
          join jobforge.workflows as w on w.tenant_id = i.tenant_id and w.id = i.id
           for update of w skip locked
    )
    select array_agg(n.place) into v_stuck
      from (select n.place from needed as n
             where not exists (select from free_jobs as f
                                where f.tenant_id = n.tenant_id and f.id = n.id)
            union all
            select i.place from within as i
              join jobforge.workflows as w on w.tenant_id = i.tenant_id and w.id = i.id
             where not exists (select from free_workflows as f
                                where f.tenant_id = i.tenant_id and f.id = i.id)) as n;
    return array(
        select o.outcome
          from jsonb_array_elements(p_outcomes) with ordinality as o(outcome, place)
         where o.place not in (select unnest(v_stuck))
         order by random());
end $$;
