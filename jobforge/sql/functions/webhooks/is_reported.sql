-- Whether webhooks tell of the jobs of a definition: not of those that send webhooks, which would
-- never end, and not of hooks, which follow from a job that was told of.
create or replace function jobforge_private.is_reported(p_definition text) returns boolean
language sql immutable
as $$ select p_definition <> 'connector.webhook.deliver' and p_definition not like '%:hooks' $$;
