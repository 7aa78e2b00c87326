-- Explains a waiting job by the pauses of its tenant, queue and definition. Called by explain_job.
create or replace function jobforge_private.explain_pauses(p_job jobforge.all_jobs)
returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select p.code, format('%s has been paused since %s.', p.what, p.paused_at), p.remedy,
           jsonb_build_object('paused_at', p.paused_at)
      from (select 'tenant_paused' as code, 'The tenant' as what, t.paused_at,
                   'Resume the tenant.' as remedy
              from jobforge.tenants as t where t.id = p_job.tenant_id
            union all
            select 'queue_paused', 'Queue ' || q.name, q.paused_at, 'Resume the queue.'
              from jobforge.queues as q where q.name = p_job.queue
            union all
            select 'definition_paused', 'Definition ' || d.key, d.paused_at,
                   'Resume the definition.'
              from jobforge.definitions as d
             where d.key = p_job.definition and d.version = p_job.version) as p
     where p.paused_at is not null
$$;
