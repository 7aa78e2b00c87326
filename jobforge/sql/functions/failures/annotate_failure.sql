-- Applications call this to annotate a group of dead jobs: note, snoozed_until (a time),
-- resolved_in (a build). Omitted fields are unchanged; null removes a value. Notes are kept after
-- the jobs are gone. Raises JF001, JF002, JF004 (the tenant has no such group), JF006, JF014.
create or replace function jobforge.annotate_failure(
    p_fingerprint text,
    p_changes jsonb,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.check_annotation(p_changes);
    if not exists (select from jobforge.failure_notes as k
                    where k.tenant_id = v_tenant and k.fingerprint = p_fingerprint)
       and not exists (select from jobforge.jobs as j
                        where j.tenant_id = v_tenant and j.state = 'dead'
                          and j.fingerprint = p_fingerprint) then
        perform jobforge_private.refuse('JF004', 'Failure group not found',
            jsonb_build_object('fingerprint', p_fingerprint));
    end if;
    insert into jobforge.failure_notes as k (
           tenant_id, fingerprint, note, snoozed_until, resolved_in, updated_at, updated_by)
    values (v_tenant, p_fingerprint, p_changes ->> 'note',
            (p_changes ->> 'snoozed_until')::timestamptz, p_changes ->> 'resolved_in',
            jobforge_private.now(), jobforge_private.actor())
    on conflict (tenant_id, fingerprint) do update
       set note = case when p_changes ? 'note' then excluded.note else k.note end,
           snoozed_until = case when p_changes ? 'snoozed_until' then excluded.snoozed_until
                                else k.snoozed_until end,
           resolved_in = case when p_changes ? 'resolved_in' then excluded.resolved_in
                              else k.resolved_in end,
           updated_at = excluded.updated_at,
           updated_by = excluded.updated_by;
    perform jobforge_private.audit(v_tenant, 'failure.annotate', p_fingerprint, p_changes);
end $$;
