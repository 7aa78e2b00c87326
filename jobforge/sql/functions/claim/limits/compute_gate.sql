-- Returns the gate of a job: the group of jobs with the same limits or pauses, or null for a job
-- without any. Within a queue and a tenant, all jobs of a gate are subject to the same limits, so
-- one decision applies to all of them:
--   definition/key  if limits per key apply      definition  if limits of the definition apply
--   *               if only limits of the tenant or the queue apply
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
