-- Returns those of some definitions of which no job can start now: paused, all slots of the cap in
-- use, or no token left. Called by plan_round, to exclude their groups without taking locks.
create or replace function jobforge_private.full_definitions(p_definitions text[]) returns text[]
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    if p_definitions = '{}' then
        return '{}';
    end if;
    return array(
        select d.key
          from (select distinct n from unnest(p_definitions) as n) as k(key)
         cross join lateral (
            select * from jobforge.definitions as n
             where n.key = k.key order by n.version desc limit 1) as d
         where d.paused_at is not null
            or d.max_running is not null and exists (
                   select from jobforge.jobs as j
                    -- Not "=": see "Ranges instead of equality" in docs/query-plans.md.
                    where j.definition >= d.key and j.definition <= d.key
                      and j.state = 'running' and j.gate is not null
                    order by j.definition
                   offset d.max_running - 1 limit 1)
            or d.rate_limit is not null and jobforge_private.available_tokens(
                   'definition:' || d.key, d.rate_limit, d.rate_period_s,
                   coalesce(d.rate_burst, d.rate_limit), v_now) < 1);
end $$;
