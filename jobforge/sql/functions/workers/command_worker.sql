-- Stores a command for a worker and notifies it; it reads the command at its next heartbeat. Called
-- by drain_worker and stop_worker. Raises JF004.
create or replace function jobforge_private.command_worker(p_worker_id uuid, p_command text)
returns void
language plpgsql
as $$
begin
    update jobforge.workers as w
       set command = p_command
     where w.id = p_worker_id and w.stopped_at is null;
    if not found then
        perform jobforge_private.refuse('JF004', 'Worker not found',
            jsonb_build_object('worker_id', p_worker_id));
    end if;
    perform jobforge_private.notify_channel('jobforge:worker:' || p_worker_id);
    perform jobforge_private.audit(null, 'worker.' || p_command, p_worker_id::text);
end $$;
