-- Returns whether webhooks report the jobs of a definition: not those of jobs that send webhooks,
-- which would never end, nor hooks, which follow from a reported job.
create or replace function jobforge_private.is_reported(p_definition text) returns boolean
language sql immutable
as $$ select p_definition <> 'connector.webhook.deliver' and p_definition not like '%:hooks' $$;
