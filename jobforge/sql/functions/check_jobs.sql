-- Refuses an enqueue with a wrong field (JF002 with field and index) or with a payload too large
-- or too deep (JF007). Called by enqueue_jobs. Jobs with the same options are checked once.
create or replace function jobforge.check_jobs(p_jobs jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fault record;
begin
    if jsonb_typeof(p_jobs) is distinct from 'array' or jsonb_array_length(p_jobs) > 50000 then
        perform jobforge.refuse('JF002', 'jobs must be a JSON array of at most 50000 objects', '{"field": "jobs"}');
    end if;

    select e.index - 1 as index, e.job ? 'payload' and jsonb_typeof(e.job -> 'payload') = 'object' as large
      into v_fault
      from jsonb_array_elements(p_jobs) with ordinality as e(job, index)
     where jsonb_typeof(e.job) <> 'object'
        or jsonb_typeof(e.job -> 'payload') <> 'object'
        or pg_column_size(e.job -> 'payload') > 262144
     limit 1;
    if found then
        perform jobforge.refuse(
            case when v_fault.large then 'JF007' else 'JF002' end,
            case when v_fault.large then 'a payload is larger than 256 KiB'
                 else 'a job must be an object, and its payload too' end,
            jsonb_build_object('field', 'payload', 'index', v_fault.index, 'limit', 262144));
    end if;
    -- Element, payload, and 64 levels in it.
    if jsonb_path_exists(p_jobs, 'strict $.**{67 to last}') then
        perform jobforge.refuse('JF007', 'a payload is nested more than 64 levels deep',
            '{"field": "payload", "limit": 64}');
    end if;

    select o.index - 1 as index, f.field, f.rule into v_fault
      from (select e.job - 'payload' as options, min(e.index) as index
              from jsonb_array_elements(p_jobs) with ordinality as e(job, index)
             group by 1) as o
     cross join lateral jobforge.job_fault(o.options) as f
     where f.field is not null
     limit 1;
    if found then
        perform jobforge.refuse('JF002', format('%s %s', v_fault.field, v_fault.rule),
            jsonb_build_object('field', v_fault.field, 'index', v_fault.index));
    end if;
end $$;
