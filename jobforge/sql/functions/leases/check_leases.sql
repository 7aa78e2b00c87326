-- Refuses a value that is not an array of leases {tenant_id, job_id, lease} of one worker. Called
-- by the functions to which workers pass their leases. Raises JF002.
create or replace function jobforge_private.check_leases(p_worker_id uuid, p_jobs jsonb)
returns void
language plpgsql
as $$
begin
    if p_worker_id is null or jsonb_typeof(p_jobs) is distinct from 'array'
       or jsonb_array_length(p_jobs) > 5000
       or jsonb_path_exists(p_jobs, '$[*] ? (@.type() != "object" || !exists(@.tenant_id)
              || !exists(@.job_id) || !exists(@.lease))')
    then
        perform jobforge_private.refuse('JF002',
            'jobs must be an array of at most 5000 objects of one worker with tenant_id, job_id '
            || 'and lease',
            '{"field": "jobs"}');
    elsif jsonb_path_exists(p_jobs, 'strict $.** ? (@.abs() >= 1e309)') then
        -- save_steps handles results that cannot be stored.
        perform jobforge_private.refuse_unbounded('jobs', e.job)
           from jsonb_array_elements(p_jobs) as e(job)
          where jsonb_path_exists(e.job - 'result', 'strict $.** ? (@.abs() >= 1e309)');
    end if;
    perform count(o.lease) from jobforge_private.read_outcomes(p_worker_id, p_jobs) as o;
exception
    when data_exception then
        perform jobforge_private.refuse('JF002', 'Invalid jobs: ' || sqlerrm,
            '{"field": "jobs"}');
end $$;
