-- Where a job went when this attempt ended, as far as its row still tells: a dead job that was
-- revived since counts as one that went on.
create or replace function jobforge.state_after(
    p_tenant_id uuid,
    p_job_id uuid,
    p_lease bigint,
    p_outcome text
) returns text
language plpgsql stable
as $$
declare
    v_next text := case p_outcome when 'released' then 'queued' else 'scheduled' end;
    v_job record;
begin
    if p_outcome in ('succeeded', 'canceled') then
        return p_outcome;
    end if;
    select j.state, j.lease into v_job
      from jobforge.jobs as j
     where j.tenant_id = p_tenant_id and j.id = p_job_id;
    if found then
        return case when v_job.state in ('dead', 'blocked') and v_job.lease = p_lease
                    then v_job.state else v_next end;
    elsif exists (select from jobforge.attempts as h
                   where h.tenant_id = p_tenant_id and h.job_id = p_job_id
                     and h.lease > p_lease) then
        return v_next;
    end if;
    return 'canceled';
end $$;
