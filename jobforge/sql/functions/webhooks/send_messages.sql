-- Stores messages to webhook endpoints of one tenant, and enqueues the jobs that send them;
-- p_options are fields of these jobs. If connector.webhook.deliver is not registered or inactive,
-- the messages record that and can be redelivered: the jobs that they report must not fail for it.
-- Returns the ID of the first message; the others follow as nth_id counts. Called by
-- notify_endpoints, notify_job_starts and test_webhook.
create or replace function jobforge_private.send_messages(
    p_tenant_id uuid,
    p_messages jobforge.webhook_message[],
    p_options jsonb default '{}'
) returns uuid
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_first uuid := jobforge_private.uuid7();
    v_connector jobforge.definitions;
begin
    if jobforge_private.is_erased(p_tenant_id) then
        return null;
    end if;
    select * into v_connector from jobforge_private.find_definition('connector.webhook.deliver');
    insert into jobforge.webhook_deliveries (
           tenant_id, endpoint_id, id, job_id, subject_id, created_at, event, error, message)
    select p_tenant_id, m.endpoint_id, jobforge_private.nth_id(v_first, m.n),
           case when v_connector.is_active then jobforge_private.nth_id(v_first, m.n) end,
           m.subject_id, v_now, m.event,
           case when v_connector.is_active is not true
                then 'connector.webhook.deliver is not registered, or not active' end,
           m.message
      from unnest(p_messages) with ordinality as m(
           tenant_id, endpoint_id, subject_id, event, correlation_id, traceparent, message, n);
    if v_connector.is_active then
        perform jobforge_private.insert_jobs(p_tenant_id, (
            select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                       'definition', v_connector.key, 'version', v_connector.version,
                       'queue', 'connectors', 'source', 'system', 'source_ref', m.subject_id,
                       'limit_key', m.endpoint_id, 'correlation_id', m.correlation_id,
                       'traceparent', m.traceparent,
                       'payload', jsonb_build_object(
                           'endpoint_id', m.endpoint_id,
                           'delivery_id', jobforge_private.nth_id(v_first, m.n)))) || p_options
                   order by m.n)
              from unnest(p_messages) with ordinality as m(
                   tenant_id, endpoint_id, subject_id, event, correlation_id, traceparent,
                   message, n)), v_first);
    end if;
    return jobforge_private.nth_id(v_first, 1);
end $$;
