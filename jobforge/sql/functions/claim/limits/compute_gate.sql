-- The group of a job under limits or pauses, or null for a plain job. Within a queue and a
-- tenant, jobs of one gate are subject to the same limits, so one decision serves them all:
--   definition/key  when limits per key apply      definition  when limits of the definition do
--   *               when only those of the tenant or the queue do
create or replace function jobforge_private.compute_gate(
    p_definition text,
    p_limit_key text,
    p_key_limited boolean,
    p_definition_limited boolean,
    p_otherwise_limited boolean
) returns text
language sql immutable
as $$
    select case
        when p_key_limited and p_limit_key is not null then p_definition || '/' || p_limit_key
        when p_definition_limited then p_definition
        when p_otherwise_limited then '*'
    end
$$;
