-- Operators call this to limit a queue: max_running, rate_limit, rate_period_s, rate_burst. Omitted
-- fields are unchanged; null removes a limit. Locks the queue's row, and running jobs whose gate
-- changes. Raises JF002.
create or replace function jobforge.put_queue(p_queue text, p_settings jsonb default '{}')
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue jobforge.queues;
begin
    perform jobforge_private.check_settings(p_settings,
        '{max_running,rate_limit,rate_period_s,rate_burst}');
    perform jobforge_private.check_settings(jsonb_build_object('queue', p_queue), '{queue}');
    insert into jobforge.queues (name, updated_at) values (p_queue, jobforge_private.now())
    on conflict (name) do nothing;
    select * into v_queue from jobforge.queues as q where q.name = p_queue for update;
    v_queue := jsonb_populate_record(v_queue, p_settings);
    update jobforge.queues as q
       set max_running = v_queue.max_running, rate_limit = v_queue.rate_limit,
           rate_period_s = coalesce(v_queue.rate_period_s, 1), rate_burst = v_queue.rate_burst,
           updated_at = jobforge_private.now()
     where q.name = p_queue;
    perform jobforge_private.regate_running('queue', p_queue, null, null);
    perform jobforge_private.audit(null, 'queue.put', p_queue, p_settings);
exception
    when check_violation or data_exception or not_null_violation then
        perform jobforge_private.refuse('JF002', 'Settings out of range: ' || sqlerrm,
            '{"field": "settings"}');
end $$;
