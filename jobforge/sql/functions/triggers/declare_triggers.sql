-- Workers call this with the triggers that their code declares; safe to repeat. Each element of
-- p_declared: name (the key of its definition), type, tenant (an ID, a slug, or * for every tenant
-- with settings, including later ones) and settings as for create_trigger. Deletes triggers that
-- code declared for one of p_definitions and that are not in p_declared. Operators decide whether a
-- trigger is enabled. With app.tenant_id set, applies to that tenant only. One call at a time.
-- Raises JF002, JF004 (no such tenant), JF006 (another tenant), JF009.
create or replace function jobforge.declare_triggers(p_declared jsonb, p_definitions text[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_own uuid := jobforge.tenant();
    v_now timestamptz;
    v_each record;
    v_named uuid[];
    v_tenants uuid[] := '{}';
    v_names text[] := '{}';
    v_types text[] := '{}';
begin
    perform jobforge_private.check_bounded('declared', p_declared, null);
    if jsonb_typeof(p_declared) is distinct from 'array' or p_definitions is null then
        perform jobforge_private.refuse('JF002', 'declared must be a JSON array, with definitions',
            '{"field": "declared"}');
    end if;
    -- Several workers start at once: one declares after the other.
    perform jobforge_private.acquire_lock('declared');
    v_now := jobforge_private.now();
    delete from jobforge.declared_triggers as d
     where v_own is null and d.name = any (p_definitions)
       and not exists (
               select from jsonb_to_recordset(p_declared) as e(name text, type text, tenant text)
                where e.name = d.name and e.type = d.type and e.tenant = '*');
    for v_each in
        select e.name, e.type, e.tenant, e.settings
          from jsonb_to_recordset(p_declared)
               as e(name text, type text, tenant text, settings jsonb)
         order by e.name, e.type, e.tenant
    loop
        perform jobforge_private.check_name('name', v_each.name, 200);
        perform jobforge_private.check_new_trigger(v_each.type, v_each.settings);
        v_named := jobforge_private.resolve_tenants(v_each.tenant);
        if v_each.tenant = '*' and v_own is null then
            insert into jobforge.declared_triggers as d (name, type, declared_at, settings)
            values (v_each.name, v_each.type, v_now, v_each.settings)
            on conflict (name, type) do update
               set settings = excluded.settings, declared_at = v_now
             where d.settings <> excluded.settings;
        end if;
        perform jobforge_private.declare_trigger(
                    n.id, v_each.name, v_each.type, v_each.settings, v_now)
           from unnest(v_named) as n(id);
        v_tenants := v_tenants || v_named;
        v_names := v_names || array_fill(v_each.name, array[cardinality(v_named)]);
        v_types := v_types || array_fill(v_each.type, array[cardinality(v_named)]);
    end loop;
    with gone as (
        update jobforge.triggers as t
           set deleted_at = v_now, updated_at = v_now, due_at = null, next_run_at = null
         where t.declared = any (p_definitions) and t.deleted_at is null
           and (v_own is null or t.tenant_id = v_own)
           and (t.tenant_id, t.declared, t.type) not in (
                   select k.tenant_id, k.name, k.type
                     from unnest(v_tenants, v_names, v_types) as k(tenant_id, name, type))
        returning t.tenant_id, t.id
    )
    update jobforge.firings as f
       set outcome = 'skipped', reason = 'the trigger was deleted', at = v_now
      from gone as g
     where f.tenant_id = g.tenant_id and f.trigger_id = g.id and f.outcome = 'pending';
exception
    when data_exception then
        perform jobforge_private.refuse('JF002', 'Invalid declared: ' || sqlerrm,
            '{"field": "declared"}');
end $$;
