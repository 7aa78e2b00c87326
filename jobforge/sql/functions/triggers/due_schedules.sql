-- Schedulers call this for schedules that are due or have requested firings, of all tenants or that
-- of app.tenant_id, p_limit at most, the longest due first. Returns one document: `now` by the
-- database's clock; `wake_at`, when the next schedule is due; `triggers`; and the `definitions`
-- that they name, with their parameters. Only reads and takes no locks: the result may be large,
-- and the caller may freeze. Raises JF002.
create or replace function jobforge.due_schedules(p_limit integer default 1000) returns jsonb
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
    v_triggers jsonb;
    v_definitions jsonb;
begin
    perform jobforge_private.check_limit(p_limit, 5000);
    v_now := jobforge_private.now();
    with picked as materialized (
        (select t.tenant_id, t.id
           from jobforge.triggers as t
          where t.due_at <= v_now and (v_own is null or t.tenant_id = v_own)
          order by t.due_at
          limit p_limit)
        union
        (select f.tenant_id, f.trigger_id
           from jobforge.firings as f
          where f.outcome = 'pending' and (v_own is null or f.tenant_id = v_own)
          order by f.tenant_id, f.trigger_id, f.fire_at
          limit p_limit)
    ), found as materialized (
        select t.*, jobforge_private.trigger_timezone(t) as zone,
               array(select jsonb_build_object('fire_at', f.fire_at, 'kind', f.kind)
                       from jobforge.firings as f
                      where f.tenant_id = t.tenant_id and f.trigger_id = t.id
                        and f.outcome = 'pending'
                      order by f.fire_at
                      limit 100) as pending
          from (select p.tenant_id, p.id from picked as p limit p_limit) as p
          join jobforge.triggers as t on t.tenant_id = p.tenant_id and t.id = p.id
         where t.deleted_at is null
    )
    select jsonb_agg(jsonb_build_object(
               'tenant_id', f.tenant_id, 'id', f.id, 'label', f.label, 'due_at', f.due_at,
               'updated_at', f.updated_at, 'since', f.since, 'next_run_at', f.next_run_at,
               'last_fired_at', f.last_fired_at, 'starts_at', f.starts_at, 'ends_at', f.ends_at,
               'is_due', coalesce(f.due_at <= v_now, false), 'cron', f.cron, 'zone', f.zone,
               'catch_up', f.catch_up, 'catch_up_limit', f.catch_up_limit,
               'jitter_s', f.jitter_s, 'definition', f.definition, 'version', f.version,
               'payload', jobforge_private.readable(f.payload), 'pending', to_jsonb(f.pending))),
           (select jsonb_agg(jsonb_build_object(
                       'definition', n.definition, 'version', n.version,
                       'is_active', d.is_active,
                       'parameters', jobforge_private.readable(d.parameters)))
              from (select distinct u.definition, u.version from found as u) as n
              left join lateral jobforge_private.find_definition(
                   n.definition, n.version) as d on true)
      into v_triggers, v_definitions
      from found as f;
    return jsonb_build_object(
        'now', v_now,
        'wake_at', (select t.due_at from jobforge.triggers as t
                     where t.due_at > v_now and (v_own is null or t.tenant_id = v_own)
                     order by t.due_at limit 1),
        'triggers', coalesce(v_triggers, '[]'), 'definitions', coalesce(v_definitions, '[]'));
end $$;
