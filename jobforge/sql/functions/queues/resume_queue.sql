-- Operators call this to resume a paused queue. Notifies the workers. Raises nothing.
create or replace function jobforge.resume_queue(p_queue text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update jobforge.queues as p
       set paused_at = null, updated_at = jobforge_private.now()
     where p.name = p_queue;
    perform jobforge_private.wake_workers(p_queue);
    perform jobforge_private.audit(null, 'queue.resume', p_queue::text);
end $$;
