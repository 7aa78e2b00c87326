-- Runs one step of an operation: checks its canaries if it waits for them, else acts on the next
-- jobs, as many as its rate allows (a token bucket). Returns the operation in its new state; the
-- caller has locked its row. Jobs come newest first, each once: jobs that are enqueued or die in
-- the meantime are not reached. Locks jobs in order of ID; waits for settles and claims in
-- progress. Called by advance_operations.
create or replace function jobforge_private.step_operation(o jobforge.operations, p_limit integer)
returns jobforge.operations
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_canary integer := case when o.canaries is null then (o.options ->> 'canary')::integer end;
    v_rate double precision :=
        case when v_canary is null then (o.options ->> 'rate')::double precision end;
    v_limit integer := least(p_limit, v_canary);
    v_found record;
    v_ids uuid[];
begin
    o.started_at := coalesce(o.started_at, v_now);
    if o.state = 'waiting' then
        o := jobforge_private.check_canaries(o);
        if o.state <> 'running' then
            return o;
        end if;
    end if;
    o.state := 'running';
    o.due_at := v_now;
    if v_rate is not null then
        -- The bucket holds the tokens of one second.
        o.tokens := least(greatest(1, v_rate), o.tokens + v_rate
            * greatest(0, extract(epoch from v_now - coalesce(o.stepped_at, v_now))));
        o.stepped_at := v_now;
        v_limit := least(v_limit, floor(o.tokens)::integer);
    end if;

    if v_limit > 0 then
        v_found := jobforge_private.find_operation_jobs(
            o.tenant_id, o.kind, o.filter, o.below, v_limit, 10000);
        v_ids := jobforge_private.apply_operation(o, v_found.ids, v_rate);
        o.done := o.done + cardinality(v_ids);
        o.skipped := o.skipped + cardinality(v_found.ids) - cardinality(v_ids);
        o.tokens := o.tokens - case when v_rate is null then 0 else cardinality(v_ids) end;
        o.below := coalesce(v_found.below, '00000000-0000-0000-0000-000000000000');
        if v_canary is not null and v_ids <> '{}' then
            o.canaries := v_ids;
            o.state := 'waiting';
            o.due_at := v_now + interval '1 second';
        elsif v_found.below is null then
            o.state := 'done';
        end if;
    end if;
    if v_rate is not null and o.tokens < 1 then
        o.due_at := v_now + make_interval(secs => greatest(0.25, (1 - o.tokens) / v_rate));
    end if;
    return o;
end $$;
