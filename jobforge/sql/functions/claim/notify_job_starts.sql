-- Sends the message `job.started` to the webhook endpoints that want it, for jobs that a claim is
-- about to start. The caller has locked the rows. Called by claim_jobs if any tenant has such an
-- endpoint.
create or replace function jobforge_private.notify_job_starts(p_rows tid[], p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_told record;
begin
    for v_told in
        select w.tenant_id,
               array_agg(row(
                   w.tenant_id, w.id, j.id, 'job.started', j.correlation_id, j.traceparent,
                   jobforge_private.build_message('job.started', row(
                       j.tenant_id, j.id, j.lease, j.state, 'running', null, j.definition,
                       j.version, j.queue, j.priority, j.flags, j.attempt + 1, j.max_attempts,
                       j.created_at, p_now, null, j.source, j.source_ref, j.correlation_id,
                       j.traceparent, j.artifact_ref, null, null, j.payload,
                       null)::jobforge.ended_job))::jobforge.webhook_message) as messages
          from jobforge.jobs as j
          join jobforge.webhook_endpoints as w
            on w.tenant_id = j.tenant_id and w.enabled and 'start' = any (w.events)
           and (w.definitions is null or j.definition = any (w.definitions))
         where j.ctid = any (p_rows) and j.state = 'queued'
           and jobforge_private.is_reported(j.definition)
         group by w.tenant_id
    loop
        perform jobforge_private.send_messages(v_told.tenant_id, v_told.messages);
    end loop;
end $$;
