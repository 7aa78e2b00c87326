-- Computes the effective settings of all versions of a definition: defaults, then the settings that
-- code registered, then the operators' overrides. Limits come from the newest version. Updates the
-- gates of running jobs if the definition was limited, so that caps count them. Called by
-- put_definition and override_definition. Raises JF002.
create or replace function jobforge_private.apply_definition(p_key text) returns void
language plpgsql
as $$
declare
    v_limits jsonb := (
        select jsonb_object_agg(l.name, coalesce(d.overrides -> l.name, d.registered -> l.name))
          from (select * from jobforge.definitions as n where n.key = p_key
                 order by n.version desc limit 1) as d
         cross join unnest('{max_running,max_running_per_key,rate_limit,rate_period_s,rate_burst,
                             rate_limit_per_key,rate_period_per_key_s,rate_burst_per_key}'::text[])
               as l(name));
begin
    update jobforge.definitions as d
       set description = s.description,
           parameters = s.parameters,
           queue = coalesce(s.queue, 'default'),
           timeout_s = coalesce(s.timeout_s, 3600),
           max_attempts = coalesce(s.max_attempts, 5),
           backoff_base_s = coalesce(s.backoff_base_s, 1),
           backoff_cap_s = coalesce(s.backoff_cap_s, 3600),
           max_running = s.max_running,
           max_running_per_key = s.max_running_per_key,
           rate_limit = s.rate_limit,
           rate_period_s = coalesce(s.rate_period_s, 1),
           rate_burst = s.rate_burst,
           rate_limit_per_key = s.rate_limit_per_key,
           rate_period_per_key_s = coalesce(s.rate_period_per_key_s, 1),
           rate_burst_per_key = s.rate_burst_per_key,
           is_active = coalesce(s.is_active, true),
           hooks = coalesce(s.hooks, false),
           updated_at = jobforge_private.now()
      from jobforge.definitions as o
     cross join lateral jsonb_to_record(o.registered || o.overrides || v_limits) as s(
           description text, parameters jsonb, queue text, timeout_s integer,
           max_attempts integer, backoff_base_s double precision, backoff_cap_s double precision,
           max_running integer, max_running_per_key integer, rate_limit integer,
           rate_period_s double precision, rate_burst integer, rate_limit_per_key integer,
           rate_period_per_key_s double precision, rate_burst_per_key integer, is_active boolean,
           hooks boolean)
     where d.key = p_key and o.key = d.key and o.version = d.version;
    perform jobforge_private.regate_running('definition', null, null, p_key);
exception
    when check_violation or data_exception then
        perform jobforge_private.refuse('JF002', 'Settings out of range: ' || sqlerrm,
            '{"field": "settings"}');
end $$;
