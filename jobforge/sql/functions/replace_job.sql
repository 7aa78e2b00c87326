-- Gives a job that has not started the content of a new enqueue (on_conflict = 'replace').
-- Returns false when it has started or ended. Called by enqueue_jobs; locks the job.
create or replace function jobforge.replace_job(p_tenant_id uuid, p_job_id uuid, p_job jsonb)
returns boolean
language plpgsql
as $$
declare
    v_now timestamptz := jobforge.now();
    v_run_at timestamptz := greatest(v_now, (p_job ->> 'run_at')::timestamptz,
        v_now + make_interval(secs => (p_job ->> 'delay_s')::double precision));
begin
    update jobforge.jobs as j
       set payload = coalesce(p_job -> 'payload', '{}'),
           priority = coalesce((p_job ->> 'priority')::smallint, 0),
           run_at = v_run_at,
           state = case when j.state = 'blocked' then 'blocked'
                        when v_run_at <= v_now then 'queued' else 'scheduled' end,
           queued_at = case when j.state <> 'blocked' and v_run_at <= v_now then v_now end,
           expires_at = coalesce((p_job ->> 'expires_at')::timestamptz,
               v_now + make_interval(secs => (p_job ->> 'expires_in_s')::double precision)),
           tags = (select array_agg(t) from jsonb_array_elements_text(p_job -> 'tags') as t)
     where j.tenant_id = p_tenant_id and j.id = p_job_id
       and j.state in ('scheduled', 'blocked', 'queued')
       and j.attempt = 0;
    return found;
end $$;
