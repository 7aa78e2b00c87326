-- Returns the results of the jobs that a gather waited for, in its order: an array of {job_id,
-- definition, state, result, error, reason}; null while one of them can still finish. A job past
-- retention has no state. Beyond 8 MiB, returns only the size. Called by load_steps.
create or replace function jobforge_private.gather_results(p_tenant_id uuid, p_jobs uuid[])
returns jsonb
language plpgsql
as $$
declare
    v_found jsonb;
begin
    if exists (select from jobforge.jobs as j
                where j.tenant_id = p_tenant_id and j.id = any (p_jobs) and j.state <> 'dead') then
        return null;
    end if;
    select jsonb_agg(jsonb_build_object(
               'job_id', g.id, 'definition', a.definition, 'state', a.state, 'result', a.result,
               'error', a.error, 'reason', a.cancel_reason) order by g.place)
      into v_found
      from unnest(p_jobs) with ordinality as g(id, place)
      left join lateral (
           select f.definition, f.state, f.result, f.error, f.cancel_reason
             from jobforge.all_jobs as f
            where f.tenant_id = p_tenant_id and f.id = g.id
            limit 1) as a on true;
    if octet_length(v_found::text) > 8388608 then
        return jsonb_build_object('too_large', octet_length(v_found::text));
    end if;
    return v_found;
end $$;
