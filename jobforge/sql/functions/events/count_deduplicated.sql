-- Returns for how many events of the kept history a trigger created no job because another job
-- covers them. Counts up to 10,000, so that a busy trigger is cheap to show. Called by get_trigger
-- and list_triggers.
create or replace function jobforge_private.count_deduplicated(p_trigger jobforge.triggers)
returns integer
language sql stable
as $$
    select count(*)::integer
      from (select
              from jobforge.event_deliveries as d
             where d.tenant_id = p_trigger.tenant_id and d.trigger_id = p_trigger.id
               and d.outcome = 'deduplicated'
             limit 10000) as counted
$$;
