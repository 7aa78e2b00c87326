-- Notifies the workers of a queue, or of every queue that live workers serve, that there may be
-- jobs.
create or replace function jobforge_private.wake_workers(p_queue text default null) returns void
language sql
as $$
    select jobforge_private.notify_channel('jobforge:' || q.name)
      from (select p_queue as name where p_queue is not null
            union
            select unnest(w.queues) from jobforge.workers as w
             where p_queue is null and w.stopped_at is null) as q
$$;
