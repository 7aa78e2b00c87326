-- Adds an entry to the audit log. Called by every function that an operator or API caller uses to
-- change something.
create or replace function jobforge_private.audit(
    p_tenant_id uuid,
    p_action text,
    p_target text,
    p_detail jsonb default null
) returns void
language sql
as $$
    insert into jobforge.audit_log (id, tenant_id, at, actor, action, target, detail)
    values (jobforge_private.uuid7(), p_tenant_id, jobforge_private.now(), jobforge_private.actor(),
            p_action, p_target, p_detail)
$$;
