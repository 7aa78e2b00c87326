-- Returns whether nth_id made two IDs from the same first ID: the jobs were enqueued by one call.
create or replace function jobforge_private.is_same_call(p_id uuid, p_other uuid) returns boolean
language sql immutable
as $$ select left(p_id::text, 28) = left(p_other::text, 28) $$;
