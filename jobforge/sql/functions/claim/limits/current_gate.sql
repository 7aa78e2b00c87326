-- Returns the gate that a job should have under the current limits and pauses. Called where a job's
-- queue changes, and by regate_rows.
create or replace function jobforge_private.current_gate(
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_limit_key text
) returns text
language plpgsql
as $$
declare
    v_kinds text[] := array(
        select l.kind
          from jobforge_private.group_limits(p_queue, p_tenant_id, p_definition, p_limit_key) as l);
begin
    return jobforge_private.compute_gate(p_definition, p_limit_key, 'key' = any (v_kinds),
                                         'definition' = any (v_kinds), v_kinds <> '{}');
end $$;
