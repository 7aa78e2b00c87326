-- Writes the audit log: one row for each operator action. Called by the functions that act.
create or replace function jobforge.audit(
    p_tenant_id uuid,
    p_action text,
    p_target text,
    p_detail jsonb default null
) returns void
language sql
as $$
    insert into jobforge.audit_log (id, tenant_id, at, actor, action, target, detail)
    values (jobforge.uuid7(), p_tenant_id, jobforge.now(), jobforge.actor(), p_action, p_target,
            p_detail)
$$;
