-- Returns the first table that still has rows of a tenant, including locked rows, or null; with
-- p_early, only of the tables that are erased first. The operation p_keep does not count. Called by
-- step_erasure.
create or replace function jobforge_private.find_tenant_rows(
    p_tenant_id uuid,
    p_keep uuid,
    p_early boolean
) returns text
language plpgsql
as $$
declare
    v_root text;
    v_has_any boolean;
begin
    for v_root in
        select t.root from jobforge_private.tenant_tables() as t
         where t.turn is not null or not p_early
         group by t.root
         order by min(t.turn), t.root
    loop
        execute format('select exists (select from jobforge.%I as e where e.tenant_id = $1 %s)',
                       v_root, case when v_root = 'operations' then 'and e.id <> $2' end)
           into v_has_any using p_tenant_id, p_keep;
        if v_has_any then
            return v_root;
        end if;
    end loop;
    return null;
end $$;
