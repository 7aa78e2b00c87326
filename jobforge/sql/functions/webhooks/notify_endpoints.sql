-- Sends messages about attempts and jobs that ended to the webhook endpoints, in the same
-- transaction. Called by follow_up once per batch. Messages, and the events of an endpoint that
-- select them:
--   job.succeeded   success, end
--   job.canceled    end
--   job.dead        failure, dead, end
--   job.failed      failure: the attempt failed, and the job continues
-- Jobs that send webhooks and hooks are not reported, nor the discarding of a dead job, which was
-- reported when it died.
create or replace function jobforge_private.notify_endpoints(p_ended jobforge.ended_job[])
returns void
language plpgsql
as $$
declare
    v_notice record;
begin
    for v_notice in
        select w.tenant_id,
               array_agg(row(
                   w.tenant_id, w.id, e.id, t.event, e.correlation_id, e.traceparent,
                   jobforge_private.build_message(t.event, e)
               )::jobforge.webhook_message) as messages
          from unnest(p_ended) as e
         cross join lateral (
               select 'job.' || k.event as event, k.wanted_as
                 from (values ('succeeded', '{success,end}'::text[]),
                              ('canceled', '{end}'),
                              ('dead', '{failure,dead,end}'),
                              ('failed', '{failure}')) as k(event, wanted_as)
                where k.event = case
                      when e.state in ('succeeded', 'canceled', 'dead') then e.state
                      when e.outcome not in ('released', 'snoozed') then 'failed' end) as t
          join jobforge.webhook_endpoints as w
            on w.tenant_id = e.tenant_id and w.enabled and w.events && t.wanted_as
           and (w.definitions is null or e.definition = any (w.definitions))
         where e.was <> 'dead' and jobforge_private.is_reported(e.definition)
         group by w.tenant_id
    loop
        perform jobforge_private.send_messages(v_notice.tenant_id, v_notice.messages);
    end loop;
end $$;
