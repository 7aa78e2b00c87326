-- Notifies the schedulers that there may be work, when this transaction commits.
create or replace function jobforge_private.wake_scheduler() returns void
language sql
as $$ select jobforge_private.notify_channel('jobforge_scheduler') $$;
