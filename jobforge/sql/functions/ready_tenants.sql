-- The tenants that have plain ready jobs in a queue, in order, from p_from (inclusive) to p_below
-- (exclusive), p_limit at most, each with the place of its first job. One index probe for each,
-- however many jobs they have. While many more are asked for, and tenants have few jobs each, all
-- these jobs are read instead, which is faster. Called by find_turns.
create or replace function jobforge.ready_tenants(
    p_queue text,
    p_from uuid,
    p_below uuid,
    p_limit integer
) returns jobforge.turn[]
language plpgsql
as $$
declare
    v_turns jobforge.turn[] := array(
        select row(j.tenant_id, - j.priority::integer, j.run_at, j.id, 0, j.ctid)::jobforge.turn
          from jobforge.jobs as j
         where j.queue = p_queue and j.state = 'queued' and j.gate is null
           and j.tenant_id >= p_from and j.tenant_id < p_below
         order by j.tenant_id, - j.priority::integer, j.run_at, j.id
         limit 1);
    v_last uuid := v_turns[1].tenant_id;
    v_length integer := 64;
    v_next jobforge.turn[];
begin
    while v_last is not null and cardinality(v_turns) <= p_limit - 64 loop
        v_next := array(
            select row(t.*)::jobforge.turn
              from (select distinct on (s.tenant_id) s.*
                      from (select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id,
                                   0 as quota, j.ctid
                              from jobforge.jobs as j
                             where j.queue = p_queue and j.state = 'queued' and j.gate is null
                               and j.tenant_id > v_last and j.tenant_id < p_below
                             order by j.tenant_id, - j.priority::integer, j.run_at, j.id
                             limit v_length) as s
                     order by s.tenant_id, s.rank, s.run_at, s.id) as t);
        v_turns := v_turns || v_next;
        v_last := v_next[cardinality(v_next)].tenant_id;
        exit when cardinality(v_next) < v_length / 12;
        v_length := 512;
    end loop;
    if v_last is null or cardinality(v_turns) >= p_limit then
        return v_turns[: p_limit];
    end if;
    return v_turns || array(
        with recursive ready as (
            select v_last as tenant_id, 0 as rank, null::timestamptz as run_at, null::uuid as id,
                   null::tid as ctid
            union all
            select n.*
              from ready as r
             cross join lateral (
                select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id, j.ctid
                  from jobforge.jobs as j
                 where j.queue = p_queue and j.state = 'queued' and j.gate is null
                   and j.tenant_id > r.tenant_id and j.tenant_id < p_below
                 order by j.tenant_id, - j.priority::integer, j.run_at, j.id
                 limit 1) as n
        )
        select row(r.tenant_id, r.rank, r.run_at, r.id, 0, r.ctid)::jobforge.turn
          from ready as r
        offset 1
         limit p_limit - cardinality(v_turns));
end $$;
