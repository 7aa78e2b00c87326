-- Defers jobs that no worker can run, so that they do not delay the jobs behind them: if more than
-- 100 jobs at the head of a tenant belong to definitions that no live worker of the queue serves,
-- they become scheduled, first for 5 s and then with exponential backoff up to 5 min. Jobs that
-- another worker serves stay where they are. Starts at the tenant's head p_first, so that dead
-- index entries before it are not scanned again. Returns how many jobs were deferred. Called by
-- pick_round. Skips jobs that other transactions have locked.
create or replace function jobforge_private.defer_unserved_jobs(
    p_queue text,
    p_first jobforge.tenant_head,
    p_definitions text[]
) returns bigint
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_front text[];
    v_orphans text[];
    v_deferred bigint;
begin
    for v_depth in 1 .. 2 loop
        v_front := array(
            select j.definition || '@' || j.version
              from jobforge.jobs as j
             where j.queue = p_queue and j.tenant_id = p_first.tenant_id
               and j.state = 'queued' and j.gate is null
               and (- j.priority::integer, j.run_at, j.id)
                   >= (p_first.rank, p_first.run_at, p_first.id)
             order by - j.priority::integer, j.run_at, j.id
             limit case v_depth when 1 then 1 else 101 end);
        if v_front && p_definitions then
            return 0;
        end if;
    end loop;
    v_orphans := array(
        select distinct f.name
          from unnest(v_front) as f(name)
         where not exists (
               select from jobforge.workers as w
                where w.stopped_at is null and w.live_until >= v_now
                  and p_queue = any (w.queues)
                  and (w.definitions is null or f.name = any (w.definitions))));
    if cardinality(v_front) <= 100 or v_orphans = '{}' then
        return 0;
    end if;
    update jobforge.jobs as j
       set state = 'scheduled',
           run_at = v_now + make_interval(secs => least(300, 5 * power(2, least(j.deferrals, 10)))),
           deferrals = least(j.deferrals, 99) + 1
     where j.state = 'queued' and j.ctid = any (array(
           select q.ctid
             from jobforge.jobs as q
            where q.queue = p_queue and q.tenant_id = p_first.tenant_id
              and q.state = 'queued' and q.gate is null
              and q.definition || '@' || q.version = any (v_orphans)
            order by - q.priority::integer, q.run_at, q.id
            limit 1000
              for update skip locked));
    get diagnostics v_deferred = row_count;
    return v_deferred;
end $$;
