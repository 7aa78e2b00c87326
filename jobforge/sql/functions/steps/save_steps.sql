-- Workers call this with steps that running jobs have finished: objects {tenant_id, job_id, lease,
-- name, index, result}. Returns one row for each: `ok`, `lost` (the lease is not held: nothing is
-- stored), `too_large` (the result exceeds 1 MiB or 64 levels) or `too_many` (a job has at most
-- 1000 steps and 16 MiB of results). A repeated step is `ok`, and the first result stays. Locks the
-- jobs in order of (tenant_id, id). Raises JF002.
create or replace function jobforge.save_steps(p_worker_id uuid, p_steps jsonb)
returns table (job_id uuid, lease bigint, name text, index integer, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
    v_step record;
    v_flags smallint;
    v_status text;
    v_kept record;
begin
    perform jobforge_private.check_leases(p_worker_id, p_steps);
    if exists (select from jsonb_array_elements(p_steps) as e(step)
                where jobforge_private.is_valid_wait(jsonb_build_object(
                          'kind', 'sleep', 'name', e.step -> 'name', 'index', e.step -> 'index'))
                      is not true) then
        perform jobforge_private.refuse('JF002',
            'Each step must have a name of 1 to 200 characters and an index', '{"field": "steps"}');
    end if;
    for v_step in
        select s.*, row_number() over (order by s.tenant_id, s.job_id, s.place) as turn
          from rows from (jsonb_to_recordset(p_steps) as (
                   tenant_id uuid, job_id uuid, lease bigint, name text, index integer,
                   result jsonb)) with ordinality
               as s(tenant_id, job_id, lease, name, index, result, place)
         order by turn
    loop
        v_status := 'ok';
        select j.flags into v_flags
          from jobforge.jobs as j
         where j.tenant_id = v_step.tenant_id and j.id = v_step.job_id
           and (v_tenant is null or j.tenant_id = v_tenant)
           and j.state || '' = 'running' and j.worker_id = p_worker_id and j.lease = v_step.lease
           for update;
        if not found then
            v_status := 'lost';
        elsif not jobforge_private.is_bounded(v_step.result, 1048576)
              or jsonb_path_exists(v_step.result, 'strict $.**{65 to last}') then
            v_status := 'too_large';
        else
            select count(*) as steps,
                   coalesce(sum(s.bytes) filter (where s.kind in ('step', 'gather')), 0) as bytes
              into v_kept
              from jobforge.steps as s
             where s.tenant_id = v_step.tenant_id and s.job_id = v_step.job_id;
            if v_kept.steps >= 1000 or v_kept.bytes > 16777216 then
                v_status := 'too_many';
            else
                insert into jobforge.steps (
                       tenant_id, job_id, lease, at, index, bytes, kind, name, result)
                values (v_step.tenant_id, v_step.job_id, v_step.lease, jobforge_private.now(),
                        v_step.index, coalesce(octet_length(v_step.result::text), 4), 'step',
                        v_step.name,
                        coalesce(v_step.result, 'null'::jsonb))
                on conflict do nothing;
                if v_flags & 4 = 0 then
                    update jobforge.jobs as j
                       set flags = j.flags | 4
                     where j.tenant_id = v_step.tenant_id and j.id = v_step.job_id
                       and j.lease = v_step.lease;
                end if;
            end if;
        end if;
        return query
        select v_step.job_id, v_step.lease, v_step.name, v_step.index, v_status;
    end loop;
end $$;
