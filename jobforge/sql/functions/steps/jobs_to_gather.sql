-- Returns the jobs that the outcomes of a settle call will wait for, so that its callers can lock
-- them together with the settled jobs, in one order.
create or replace function jobforge_private.jobs_to_gather(p_outcomes jsonb)
returns table (tenant_id uuid, job_id uuid)
language sql stable
as $$
    select o.tenant_id, g.id::uuid
      from jsonb_to_recordset(p_outcomes) as o(tenant_id uuid, outcome text, wait jsonb)
     cross join lateral jsonb_array_elements_text(
           case when o.outcome = 'snoozed' and jobforge_private.is_valid_wait(o.wait)
                then o.wait -> 'jobs' end) as g(id)
     where o.wait is not null
$$;
