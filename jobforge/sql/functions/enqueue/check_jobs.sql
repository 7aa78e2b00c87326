-- Refuses an enqueue with an invalid field (JF002 with field and index), or with a payload that is
-- too large or too deep (JF007). Jobs with the same options are checked once. Called by
-- enqueue_jobs and every function that enqueues jobs of a caller.
create or replace function jobforge_private.check_jobs(p_jobs jsonb) returns void
language plpgsql
as $$
declare
    v_options record;
    v_fault record;
begin
    if jsonb_typeof(p_jobs) is distinct from 'array' or jsonb_array_length(p_jobs) > 50000 then
        perform jobforge_private.refuse('JF002',
            'jobs must be a JSON array of at most 50000 objects', '{"field": "jobs"}');
    end if;
    -- Two levels are the array and its elements; a payload may have 64.
    if jsonb_path_exists(p_jobs, 'strict $.**{67 to last}') then
        perform jobforge_private.refuse('JF007', 'The payload is nested more than 64 levels deep',
            '{"field": "payload", "limit": 64}');
    end if;
    if jsonb_path_exists(p_jobs, 'strict $.** ? (@.abs() >= 1e309)') then
        select e.job, e.index - 1 as index into v_fault
          from jsonb_array_elements(p_jobs) with ordinality as e(job, index)
         where jsonb_path_exists(e.job, 'strict $.** ? (@.abs() >= 1e309)')
         limit 1;
        perform jobforge_private.refuse_unbounded(
            case when jobforge_private.is_bounded(v_fault.job -> 'payload') is false then 'payload'
                 else 'job' end,
            case when jobforge_private.is_bounded(v_fault.job -> 'payload') is false
                 then v_fault.job -> 'payload' else v_fault.job end,
            jsonb_build_object('index', v_fault.index));
    end if;
    for v_options in
        select case when jsonb_typeof(e.job) = 'object' then e.job - 'payload' end as options,
               min(e.index) - 1 as index,
               min(e.index) filter (where jsonb_typeof(e.job -> 'payload') <> 'object') - 1 as bad,
               min(e.index) filter (where pg_column_size(e.job -> 'payload') > 262144) - 1 as large,
               min(e.index) filter (where case
                   when pg_column_size(e.job) > 1500
                   then not jobforge_private.has_short_text(e.job, 2097152) end) - 1 as long
          from jsonb_array_elements(p_jobs) with ordinality as e(job, index)
         group by 1
    loop
        if v_options.options is null or v_options.bad is not null then
            perform jobforge_private.refuse('JF002',
                'Each job and its payload must be JSON objects',
                jsonb_build_object('field', 'payload',
                                   'index', coalesce(v_options.bad, v_options.index)));
        elsif v_options.large is not null then
            perform jobforge_private.refuse_large_payload(v_options.large::integer);
        elsif v_options.long is not null then
            perform jobforge_private.refuse_unbounded('job', p_jobs -> v_options.long::integer,
                jsonb_build_object('index', v_options.long));
        end if;
        v_fault := jobforge_private.job_fault(v_options.options);
        if v_fault.field is not null then
            perform jobforge_private.refuse('JF002', format('%s %s', v_fault.field, v_fault.rule),
                jsonb_build_object('field', v_fault.field, 'index', v_options.index));
        end if;
    end loop;
end $$;
