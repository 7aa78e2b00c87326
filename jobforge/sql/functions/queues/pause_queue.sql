-- Operators call this to pause a queue: claims skip it, and jobs can still be enqueued. Raises
-- JF002.
create or replace function jobforge.pause_queue(p_queue text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobforge_private.check_settings(jsonb_build_object('queue', p_queue), '{queue}');
    insert into jobforge.queues (name, updated_at) values (p_queue, jobforge_private.now())
    on conflict (name) do nothing;
    update jobforge.queues as p
       set paused_at = coalesce(p.paused_at, jobforge_private.now()),
           updated_at = jobforge_private.now()
     where p.name = p_queue;
    perform jobforge_private.audit(null, 'queue.pause', p_queue::text);
end $$;
