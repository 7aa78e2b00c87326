-- Workers call this when they start, and again when a heartbeat returns `unknown`. Its ID is a
-- random UUID of the process, never a host name. p_definitions lists what it serves as key@version,
-- p_isolation is the level at which its jobs are isolated. p_lease_s is the length of its leases:
-- the worker is live for this time after it registers. The worker serves app.tenant_id if that is
-- set, and belongs to the actor that registers it: the ID of another actor's worker is JF004.
-- Raises JF002, JF004, JF014.
create or replace function jobforge.register_worker(
    p_worker_id uuid,
    p_queues text[],
    p_slots integer,
    p_definitions text[] default null,
    p_host text default null,
    p_pid integer default null,
    p_build text default null,
    p_isolation text default null,
    p_lease_s double precision default 30
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    if p_worker_id is null or coalesce(cardinality(p_queues), 0) = 0
       or array_position(p_queues, null) is not null
       or exists (select from unnest(p_queues) as q
                   where q !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}$')
       or p_slots is null or p_slots < 1 then
        perform jobforge_private.refuse('JF002', 'worker must have an id, queues and slots',
            '{"field": "worker"}');
    elsif p_lease_s is null or not p_lease_s between 1 and 3600 then
        perform jobforge_private.refuse('JF002', 'lease_s must be between 1 and 3600',
            '{"field": "lease_s"}');
    end if;
    perform jobforge_private.check_not_erased(jobforge.tenant());
    insert into jobforge.workers as w (
           id, started_at, heartbeat_at, live_until, pid, slots, host, build, isolation, queues,
           definitions, definitions_hash, tenant_id, owner)
    values (p_worker_id, v_now, v_now, v_now + make_interval(secs => p_lease_s), p_pid, p_slots,
            left(p_host, 255), left(p_build, 255), left(p_isolation, 255), p_queues, p_definitions,
            hash_array_extended(p_definitions collate "C", 0), jobforge.tenant(),
            jobforge_private.actor())
    on conflict (id) do update
       set heartbeat_at = v_now, live_until = excluded.live_until, stopped_at = null,
           pid = excluded.pid, slots = excluded.slots,
           host = excluded.host, build = excluded.build, isolation = excluded.isolation,
           queues = excluded.queues, definitions = excluded.definitions,
           definitions_hash = excluded.definitions_hash, owner = excluded.owner
     where w.tenant_id is not distinct from excluded.tenant_id
       and coalesce(w.owner, excluded.owner) = excluded.owner;
    if not found then
        perform jobforge_private.refuse('JF004', 'Worker not found',
            jsonb_build_object('worker_id', p_worker_id));
    end if;
end $$;
