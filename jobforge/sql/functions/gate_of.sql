-- The gate that a job should have under the limits and pauses of now.
create or replace function jobforge.gate_of(
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_limit_key text
) returns text
language sql stable
as $$
    select jobforge.gate(p_definition, p_limit_key, bool_or(l.kind = 'key'),
                         bool_or(l.kind = 'definition'), count(*) > 0)
      from jobforge.limits_of(p_queue, p_tenant_id, p_definition, p_limit_key) as l
$$;
