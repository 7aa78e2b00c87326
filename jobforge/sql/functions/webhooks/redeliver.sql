-- Applications call this to send a message to a webhook endpoint again, with the same ID and all
-- its attempts. A message that waits for its next attempt is sent now. Returns the job that sends
-- it. Locks the endpoint, then the job. Raises JF001, JF004, JF005 (the endpoint is disabled, or
-- the message is being sent), JF006, JF009, JF010, JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.redeliver(
    p_id uuid,
    p_delivery_id uuid,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_endpoint jobforge.webhook_endpoints := jobforge_private.lock_webhook(v_tenant, p_id);
    v_delivery jobforge.webhook_deliveries;
    v_job record;
    v_first uuid;
begin
    perform jobforge_private.require_read_committed('redeliver');
    select d.* into v_delivery from jobforge.webhook_deliveries as d
     where d.tenant_id = v_tenant and d.endpoint_id = p_id and d.id = p_delivery_id;
    if not found then
        perform jobforge_private.refuse('JF004', 'Delivery not found',
            jsonb_build_object('delivery_id', p_delivery_id));
    elsif not v_endpoint.enabled then
        perform jobforge_private.refuse('JF005', 'The webhook is disabled',
            '{"state": "disabled"}');
    end if;
    select j.ctid as row_id, j.state into v_job from jobforge.jobs as j
     where j.tenant_id = v_tenant and j.id = v_delivery.job_id
       for update;
    if v_job.state in ('queued', 'running', 'blocked') then
        perform jobforge_private.refuse('JF005', 'The message is being delivered',
            jsonb_build_object('state', 'pending', 'job_id', v_delivery.job_id));
    elsif v_job.state = 'scheduled' then
        perform jobforge.reschedule_job(v_delivery.job_id, null, v_tenant);
    else
        if v_job.state = 'dead' then
            perform jobforge_private.cancel_rows(array[v_job.row_id], 'redelivered');
        end if;
        v_first := jobforge_private.uuid7();
        perform jobforge_private.insert_jobs(v_tenant, jsonb_build_array(jsonb_strip_nulls(
            jsonb_build_object(
                'definition', 'connector.webhook.deliver', 'queue', 'connectors',
                'source', 'system', 'source_ref', v_delivery.subject_id, 'limit_key', p_id,
                'created_by', jobforge_private.actor(), 'payload', jsonb_build_object(
                    'endpoint_id', p_id, 'delivery_id', p_delivery_id)))), v_first);
        v_delivery.job_id := jobforge_private.nth_id(v_first, 1);
        update jobforge.webhook_deliveries as d
           set job_id = v_delivery.job_id, delivered_at = null, error = null
         where d.tenant_id = v_tenant and d.endpoint_id = p_id and d.id = p_delivery_id;
    end if;
    perform jobforge_private.audit(v_tenant, 'webhook.redeliver', p_id::text,
        jsonb_build_object('delivery_id', p_delivery_id, 'job_id', v_delivery.job_id));
    return v_delivery.job_id;
end $$;
