-- Sends the message `job.started` to the webhook endpoints that want it, for jobs that a claim is
-- about to start. The caller has locked the rows. Called by claim_jobs if any tenant has such an
-- endpoint.
create or replace function jobforge_private.notify_job_starts(p_rows tid[], p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_notice record;
begin
    for v_notice in
        select w.tenant_id,
               array_agg(row(
                   w.tenant_id, w.id, j.id, 'job.started', j.correlation_id, j.traceparent,
                   jobforge_private.build_message('job.started', jobforge_private.to_ended_job(
                       p_tenant_id => j.tenant_id, p_id => j.id, p_lease => j.lease,
                       p_state => 'running', p_definition => j.definition, p_version => j.version,
                       p_queue => j.queue, p_priority => j.priority, p_flags => j.flags,
                       p_attempt => j.attempt + 1, p_max_attempts => j.max_attempts,
                       p_created_at => j.created_at, p_started_at => p_now, p_ended_at => null,
                       p_source => j.source, p_source_ref => j.source_ref,
                       p_correlation_id => j.correlation_id, p_traceparent => j.traceparent,
                       p_artifact_ref => j.artifact_ref, p_payload => j.payload,
                       p_was => j.state)))::jobforge.webhook_message) as messages
          from jobforge.jobs as j
          join jobforge.webhook_endpoints as w
            on w.tenant_id = j.tenant_id and w.enabled and 'start' = any (w.events)
           and (w.definitions is null or j.definition = any (w.definitions))
         where j.ctid = any (p_rows) and j.state = 'queued'
           and jobforge_private.is_reported(j.definition)
         group by w.tenant_id
    loop
        perform jobforge_private.send_messages(v_notice.tenant_id, v_notice.messages);
    end loop;
end $$;
