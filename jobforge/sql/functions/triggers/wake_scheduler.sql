-- Tells the schedulers that there may be something to do, once this transaction commits.
create or replace function jobforge.wake_scheduler() returns void
language sql
as $$ select jobforge.notify_channel('jobforge_scheduler') $$;
