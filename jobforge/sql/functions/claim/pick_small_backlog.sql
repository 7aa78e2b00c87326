-- Locks all ready jobs of a queue if they are few, fewer than p_limit and at most 64: no tenant has
-- to be chosen then. Returns null if there are more, or if some have a gate, have expired or are
-- not served by this worker; then the caller runs a regular round. Skips rows that other
-- transactions have locked. Called by pick_round.
create or replace function jobforge_private.pick_small_backlog(
    p_queue text,
    p_limit integer,
    p_definitions text[]
) returns tid[]
language plpgsql
as $$
declare
    v_most integer := least(p_limit, 64);
    v_now timestamptz := jobforge_private.now();
    v_rows tid[];
    v_is_gated boolean;
begin
    select array(
               select case when (p_definitions is null
                                 or j.definition || '@' || j.version = any (p_definitions))
                            and (j.expires_at > v_now or j.started_at is not null) is not false
                           then j.ctid end
                 from jobforge.jobs as j
                where j.queue = p_queue and j.state = 'queued' and j.gate is null
                order by j.tenant_id, - j.priority::integer, j.run_at, j.id
                limit v_most + 1
                  for update skip locked),
           exists (
               select from jobforge.jobs as j
                where j.queue = p_queue and j.state = 'queued' and j.gate is not null)
      into v_rows, v_is_gated;
    if v_is_gated or cardinality(v_rows) > v_most or array_position(v_rows, null) is not null then
        return null;
    end if;
    return v_rows;
end $$;
