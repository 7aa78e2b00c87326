-- The reaper's settle: outcomes as for settle_jobs, all at once or, where that cannot be, one by
-- one. A job whose end somebody's transaction holds up, or which cannot be settled at all, is left
-- to the next call: the others must not wait for it. Called by reap_jobs.
create or replace function jobforge.settle_lost_jobs(p_lost jsonb)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
    v_lost jsonb;
    v_left integer := 0;
begin
    begin
        return query
        select s.tenant_id, s.job_id, s.lease, s.state from jobforge.settle_jobs(null, p_lost) as s;
        return;
    exception
        when transaction_rollback or insufficient_resources or operator_intervention then raise;
        when others then null;
    end;
    -- In any order, so that those which have to be left do not come first each time.
    for v_lost in select e from jsonb_array_elements(p_lost) as e order by random() loop
        exit when v_left = 10;
        begin
            return query
            select s.tenant_id, s.job_id, s.lease, s.state
              from jobforge.settle_jobs(null, jsonb_build_array(v_lost)) as s;
        exception
            when transaction_rollback or insufficient_resources or operator_intervention then raise;
            when others then
                v_left := v_left + 1;
                raise warning 'job % cannot be reaped: %', v_lost ->> 'job_id', sqlerrm;
        end;
    end loop;
end $$;
