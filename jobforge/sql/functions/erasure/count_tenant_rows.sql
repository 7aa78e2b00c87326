-- Returns about how many rows a tenant has in all tables: up to 10,000 rows of each table are
-- counted; beyond that, the planner's estimate is used. Called by delete_tenant.
create or replace function jobforge_private.count_tenant_rows(p_tenant_id uuid) returns bigint
language plpgsql
as $$
declare
    v_root text;
    v_counted bigint;
    v_plan json;
    v_rows bigint := 0;
begin
    for v_root in select distinct t.root from jobforge_private.tenant_tables() as t loop
        execute format(
            'select count(*) from (select from jobforge.%I where tenant_id = $1 limit 10001) as r',
            v_root) into v_counted using p_tenant_id;
        if v_counted > 10000 then
            execute format('explain (format json) select from jobforge.%I where tenant_id = %L',
                           v_root, p_tenant_id) into v_plan;
            v_counted := greatest(v_counted, (v_plan #>> '{0,Plan,Plan Rows}')::bigint);
        end if;
        v_rows := v_rows + v_counted;
    end loop;
    return v_rows;
end $$;
