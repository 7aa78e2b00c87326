-- Settles outcomes that could not be settled all at once. One pass finds and leaves out those that
-- need a row of another transaction (lockable_outcomes); the others are settled together. If that
-- fails too, for a row that the pass does not check, each half is settled separately, and so on:
-- one such job among 2,000 costs eleven failures, each with at most 10 ms of waiting, and about as
-- many subtransactions. After 24 failures, the rest is left. The order is random, so that not the
-- same jobs are left each time. Returns the settled jobs. Without p_worker_id it settles for the
-- reaper and leaves a job whose settle fails for any reason, with a warning; otherwise it leaves
-- only a job that needs a row held by another transaction. The caller has locked the jobs. Called
-- by settle_linked_jobs and settle_lost_jobs.
create or replace function jobforge_private.settle_in_parts(p_worker_id uuid, p_outcomes jsonb)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
set lock_timeout = '10ms'
as $$
#variable_conflict use_column
declare
    v_outcomes jsonb[] := jobforge_private.lockable_outcomes(p_outcomes);
    -- The parts that are still to be settled, as pairs of indexes into v_outcomes.
    v_parts integer[] := array[1, cardinality(v_outcomes)];
    v_first integer;
    v_last integer;
    v_failures integer := 0;
begin
    while v_parts <> '{}' and v_failures < 24 loop
        v_first := v_parts[cardinality(v_parts) - 1];
        v_last := v_parts[cardinality(v_parts)];
        v_parts := trim_array(v_parts, 2);
        continue when v_first > v_last;
        begin
            return query
            select s.tenant_id, s.job_id, s.lease, s.state
              from jobforge_private.settle_jobs(
                       p_worker_id, to_jsonb(v_outcomes[v_first : v_last])) as s;
        exception
            when transaction_rollback or insufficient_resources or operator_intervention then raise;
            when others then
                if p_worker_id is not null and sqlstate <> '55P03' then
                    raise;
                end if;
                v_failures := v_failures + 1;
                if v_first < v_last then
                    v_parts := v_parts || array[
                        (v_first + v_last) / 2 + 1, v_last, v_first, (v_first + v_last) / 2];
                elsif p_worker_id is null then
                    raise warning 'Job % cannot be reaped: %',
                        v_outcomes[v_first] ->> 'job_id', sqlerrm;
                end if;
        end;
    end loop;
end $$;
