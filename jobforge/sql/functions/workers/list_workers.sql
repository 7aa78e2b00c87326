-- Operators call this for the workers of the last day. State: live, draining, stopping, stale (no
-- heartbeat for the length of its leases), stopped. memory_bytes is the memory of its process at
-- the last heartbeat, clock_skew_s how far its clock was ahead of the database's, isolation the
-- level at which its jobs are isolated.
create or replace function jobforge.list_workers()
returns table (
    id uuid, state text, host text, pid integer, build text, queues text[], definitions text[],
    slots integer, running integer, started_at timestamptz, heartbeat_at timestamptz,
    stopped_at timestamptz, memory_bytes bigint, clock_skew_s double precision,
    isolation text
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select w.id,
           case when w.stopped_at is not null then 'stopped'
                when w.live_until < jobforge_private.now() then 'stale'
                when w.command = 'drain' then 'draining'
                when w.command = 'stop' then 'stopping'
                else 'live' end,
           w.host, w.pid, w.build, w.queues, w.definitions, w.slots, w.running, w.started_at,
           w.heartbeat_at, w.stopped_at, w.memory_bytes, w.clock_skew_s, w.isolation
      from jobforge.workers as w
     order by w.started_at desc, w.id
$$;
