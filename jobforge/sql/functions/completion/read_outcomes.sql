-- Returns the outcomes of a settle call as rows that can be stored. An invalid outcome becomes a
-- final failure that says why: an unknown outcome, a result beyond 1 MiB or 64 levels, a retry more
-- than a year ahead, an invalid wait. An error beyond 64 KiB or 64 levels keeps its type and the
-- start of its message. Without p_worker_id, each outcome names its worker.
create or replace function jobforge_private.read_outcomes(p_worker_id uuid, p_outcomes jsonb)
returns table (
    tenant_id uuid, job_id uuid, worker_id uuid, lease bigint, started_at timestamptz, outcome text,
    result jsonb, error jsonb, reason text, final boolean, retry_in_s double precision,
    run_at timestamptz, artifact_ref text, exit_code integer, pid integer,
    peak_memory_bytes bigint, cpu_ms bigint, stdout_tail text, stderr_tail text, wait_kind text
)
language sql stable
as $$
    select o.tenant_id, o.job_id, coalesce(p_worker_id, o.worker_id), o.lease, o.started_at,
           case when f.fault is null then o.outcome else 'failed' end,
           case when f.fault is null then o.result end,
           case when f.fault is not null
                then jsonb_build_object('type', f.fault, 'message', case f.fault
                     when 'ResultTooLarge' then 'The result is larger than 1 MiB; store '
                         'the data elsewhere and return a reference to it'
                     when 'ResultTooDeep' then 'The result is nested more than 64 levels deep'
                     when 'ResultTooLong' then 'The result has more than 8 MiB of text or a number '
                         'of 1e309 or more'
                     when 'InvalidRetry' then 'The wait must be between 0 seconds and 366 days'
                     when 'InvalidWait' then 'A wait must have a kind (sleep, event, gather), '
                         'a name of 1 to 200 characters, an index and a condition'
                     else 'Unknown outcome ' || coalesce(left(o.outcome, 100), 'null') end)
                -- First, because most outcomes have no error and the checks below cost more.
                when o.error is null
                then case when o.outcome in ('failed', 'timed_out', 'crashed', 'lease_lost')
                          then jsonb_build_object('type', o.outcome) end
                when jsonb_typeof(o.error) not in ('object', 'string')
                 and not jobforge_private.is_bounded(o.error)
                then '{"message": "The error is too long as JSON text"}'
                when jsonb_typeof(o.error) <> 'object'
                then jsonb_build_object('message', left(o.error #>> '{}', 8000))
                when pg_column_size(o.error) > 65536
                  or not jobforge_private.is_bounded(o.error)
                  or jsonb_path_exists(o.error, 'strict $.**{65 to last}')
                then jsonb_build_object(
                    'truncated', true,
                    'type', case when jsonb_typeof(o.error -> 'type') = 'string'
                                 then left(o.error ->> 'type', 200) end,
                    'message', case when jsonb_typeof(o.error -> 'message') = 'string'
                                    then left(o.error ->> 'message', 8000) end)
                else o.error end,
           left(o.reason, 1000), f.fault is not null or o.final, o.retry_in_s, o.run_at,
           left(o.artifact_ref, 2000), o.exit_code, o.pid, o.peak_memory_bytes, o.cpu_ms,
           right(o.stdout_tail, 65536), right(o.stderr_tail, 65536), o.wait ->> 'kind'
      from jsonb_to_recordset(p_outcomes) as o(
           tenant_id uuid, job_id uuid, worker_id uuid, lease bigint, started_at timestamptz,
           outcome text, result jsonb, error jsonb, reason text, final boolean,
           retry_in_s double precision, run_at timestamptz, artifact_ref text, exit_code integer,
           pid integer, peak_memory_bytes bigint, cpu_ms bigint, stdout_tail text,
           stderr_tail text, wait jsonb)
     cross join lateral (select case
           when o.outcome not in ('succeeded', 'failed', 'timed_out', 'crashed', 'lease_lost',
                                  'canceled', 'released', 'snoozed')
             or o.outcome is null then 'InvalidOutcome'
           when pg_column_size(o.result) > 1048576 then 'ResultTooLarge'
           when jsonb_path_exists(o.result, 'strict $.**{65 to last}') then 'ResultTooDeep'
           when not jobforge_private.is_storable_result(o.result) then 'ResultTooLong'
           when not coalesce(o.retry_in_s, 0) between 0 and 31622400 then 'InvalidRetry'
           when o.run_at > now() + interval '366 days' then 'InvalidRetry'
           when o.outcome = 'snoozed' and o.wait is not null
            and jobforge_private.is_valid_wait(o.wait) is not true then 'InvalidWait'
     end as fault) as f
$$;
