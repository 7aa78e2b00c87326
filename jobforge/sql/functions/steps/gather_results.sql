-- Returns the results of the jobs that a gather waited for, in its order: an array of {job_id,
-- definition, state, result, error, reason}; null while one of them can still finish. A job past
-- retention has no state. Beyond 8 MiB of text, returns only {too_large}: the bytes read so far.
-- Reads no further, because 10,000 permitted results can have 80 GB of text. Called by load_steps.
create or replace function jobforge_private.gather_results(p_tenant_id uuid, p_jobs uuid[])
returns jsonb
language plpgsql
as $$
declare
    v_job record;
    v_outcome jsonb;
    v_found jsonb[] := '{}';
    v_bytes bigint := 2;
begin
    if exists (select from jobforge.jobs as j
                where j.tenant_id = p_tenant_id and j.id = any (p_jobs) and j.state <> 'dead') then
        return null;
    end if;
    for v_job in
        select g.id, a.definition, a.state, a.result, a.error, a.cancel_reason
          from unnest(p_jobs) with ordinality as g(id, place)
          left join lateral (
               select f.definition, f.state, f.result, f.error, f.cancel_reason
                 from jobforge.all_jobs as f
                where f.tenant_id = p_tenant_id and f.id = g.id
                limit 1) as a on true
         order by g.place
    loop
        v_outcome := jsonb_build_object(
            'job_id', v_job.id, 'definition', v_job.definition, 'state', v_job.state,
            'result', v_job.result, 'error', v_job.error, 'reason', v_job.cancel_reason);
        -- Raises 54000 for a value that functions would not store (claim_readable_jobs): to check
        -- each takes longer than the text.
        v_bytes := v_bytes + octet_length(v_outcome::text) + 2;
        if v_bytes > 8388608 then
            return jsonb_build_object('too_large', v_bytes);
        end if;
        v_found := array_append(v_found, v_outcome);
    end loop;
    return to_jsonb(v_found);
end $$;
