-- Schedulers call this for schedules that are due or have requested firings, of all tenants or that
-- of app.tenant_id, p_limit at most, the longest due first, without those in p_without. Returns one
-- document: `now` by the database's clock; `wake_at`, when the next schedule is due; `triggers`;
-- and the `definitions` that they name, with their parameters. A document has about 8 MiB of text,
-- and the jobs to be created from it about 64 MiB: the next call returns the rest. A caller that
-- could not record some schedules names them in p_without, so that the others are returned. Only
-- reads and takes no locks: the result may be large, and the caller may freeze. Raises JF002.
create or replace function jobforge.due_schedules(
    p_limit integer default 1000,
    p_without uuid[] default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_own uuid := jobforge.tenant();
    v_now timestamptz;
    v_trigger record;
    v_bytes bigint := 0;  -- of text in the answer
    v_made bigint := 0;  -- of text in the jobs, at most
    v_named text[] := '{}';  -- definitions with their versions
    v_triggers jsonb[] := '{}';
    v_definition jsonb;
    v_definitions jsonb[] := '{}';
begin
    perform jobforge_private.check_limit(p_limit, 5000);
    v_now := jobforge_private.now();
    for v_trigger in
        with picked as materialized (
            (select t.tenant_id, t.id
               from jobforge.triggers as t
              where t.due_at <= v_now and (v_own is null or t.tenant_id = v_own)
                and t.id <> all (p_without)
              order by t.due_at
              limit p_limit)
            union
            (select f.tenant_id, f.trigger_id
               from jobforge.firings as f
              where f.outcome = 'pending' and (v_own is null or f.tenant_id = v_own)
                and f.trigger_id <> all (p_without)
              order by f.tenant_id, f.trigger_id, f.fire_at
              limit p_limit)
        )
        select t.*, coalesce(t.due_at <= v_now, false) as is_due, 0 as bytes,
               t.definition || '@' || coalesce(t.version::text, '') as named,
               jobforge_private.trigger_timezone(t) as zone,
               array(select jsonb_build_object('fire_at', f.fire_at, 'kind', f.kind)
                       from jobforge.firings as f
                      where f.tenant_id = t.tenant_id and f.trigger_id = t.id
                        and f.outcome = 'pending'
                      order by f.fire_at
                      limit 100) as pending
          from picked as p
          join jobforge.triggers as t on t.tenant_id = p.tenant_id and t.id = p.id
         where t.deleted_at is null
         order by t.due_at, t.id
         limit p_limit
    loop
        v_trigger.payload := jobforge_private.readable(v_trigger.payload);
        v_trigger.bytes := octet_length(v_trigger.payload::text);
        v_bytes := v_bytes + v_trigger.bytes;
        -- A rendered template has at most 256 KiB.
        v_made := v_made + least(v_trigger.bytes, 262144)
                           * (cardinality(v_trigger.pending)
                              + case when v_trigger.is_due and v_trigger.catch_up = 'all'
                                     then v_trigger.catch_up_limit else 1 end);
        v_definition := null;
        if v_trigger.named <> all (v_named) then
            v_definition := (
                select jsonb_build_object(
                           'definition', v_trigger.definition, 'version', v_trigger.version,
                           'is_active', d.is_active,
                           'parameters', jobforge_private.readable(d.parameters))
                  from (select) as n
                  left join lateral jobforge_private.find_definition(
                       v_trigger.definition, v_trigger.version) as d on true);
            v_bytes := v_bytes + octet_length(v_definition::text);
        end if;
        exit when v_triggers <> '{}' and (v_bytes > 8388608 or v_made > 67108864);
        if v_definition is not null then
            v_named := array_append(v_named, v_trigger.named);
            v_definitions := array_append(v_definitions, v_definition);
        end if;
        v_triggers := array_append(v_triggers, jsonb_build_object(
            'tenant_id', v_trigger.tenant_id, 'id', v_trigger.id, 'label', v_trigger.label,
            'due_at', v_trigger.due_at, 'updated_at', v_trigger.updated_at,
            'since', v_trigger.since, 'next_run_at', v_trigger.next_run_at,
            'last_fired_at', v_trigger.last_fired_at, 'starts_at', v_trigger.starts_at,
            'ends_at', v_trigger.ends_at, 'is_due', v_trigger.is_due, 'cron', v_trigger.cron,
            'zone', v_trigger.zone, 'catch_up', v_trigger.catch_up,
            'catch_up_limit', v_trigger.catch_up_limit, 'jitter_s', v_trigger.jitter_s,
            'definition', v_trigger.definition, 'version', v_trigger.version,
            'payload', v_trigger.payload, 'pending', to_jsonb(v_trigger.pending)));
    end loop;
    return jsonb_build_object(
        'now', v_now,
        'wake_at', (select t.due_at from jobforge.triggers as t
                     where t.due_at > v_now and (v_own is null or t.tenant_id = v_own)
                     order by t.due_at limit 1),
        'triggers', to_jsonb(v_triggers), 'definitions', to_jsonb(v_definitions));
end $$;
