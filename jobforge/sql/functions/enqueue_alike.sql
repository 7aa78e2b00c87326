-- Jobs that differ in their payloads only, as those of one loop mostly do: enqueue_jobs for one
-- definition and an array of payloads, in two thirds of its time. p_options are the other fields,
-- but for keys and parents, which jobs have each. Returns the id of the first, from which the
-- others count on, or null without payloads. All or nothing. Waits for nobody. Raises JF001,
-- JF002 (with field and index), JF006 to JF010.
create or replace function jobforge.enqueue_alike(
    p_definition text,
    p_payloads jsonb,
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_tenant uuid := jobforge.require_tenant(p_tenant_id);
begin
    perform jobforge.check_alike(p_definition, p_payloads, p_options);
    if p_payloads = '[]' then
        return null;
    end if;
    return jobforge.insert_alike(v_tenant, p_definition, p_payloads, p_options);
end $$;
