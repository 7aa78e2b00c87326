-- Whether two ids were made by nth_id from the same first one: jobs of one call.
create or replace function jobforge_private.is_same_call(p_id uuid, p_other uuid) returns boolean
language sql immutable
as $$ select left(p_id::text, 28) = left(p_other::text, 28) $$;
