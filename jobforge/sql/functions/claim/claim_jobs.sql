-- Workers call this for as many jobs as they have free slots: p_limits[i] from p_queues[i]. Each
-- comes with a new lease; rows that other workers are claiming are skipped, never waited for.
-- Fair between tenants by weight, within a tenant by priority, then first due; the rows come in
-- no order. Due jobs are promoted first. p_definitions lists what the worker serves as
-- key@version (null: all). With p_registered the worker serves the definitions that it passed to
-- register_worker instead: a long list need not be sent and read for each claim. p_tenants confines
-- the worker to some tenants, and so does app.tenant_id. The turn of the tenants is kept in this
-- session (jobforge.cursors), and whether the worker serves everything (jobforge.served): hints,
-- which can only change what this session is given. Raises JF002, JF006, JF004 (p_registered, and
-- the worker is not registered), and JF012 outside READ COMMITTED.
create or replace function jobforge.claim_jobs(
    p_worker_id uuid,
    p_queues text[],
    p_limits integer[],
    p_definitions text[] default null,
    p_tenants uuid[] default null,
    p_lease_s double precision default 30,
    p_registered boolean default false
) returns table (
    tenant_id uuid, job_id uuid, lease bigint, lease_expires_at timestamptz, definition text,
    version integer, queue text, priority smallint, attempt integer, max_attempts integer,
    timeout_s integer, created_at timestamptz, run_at timestamptz, queued_at timestamptz,
    started_at timestamptz, source text, source_ref text, correlation_id text, traceparent text,
    idempotency_key text, limit_key text, tags text[], artifact_ref text, flags smallint,
    payload jsonb
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz;
    v_lease bigint;
    v_lease_expires_at timestamptz;
    v_tenants uuid[] := jobforge_private.claimable_tenants(p_tenants);
    v_cursors jsonb := jobforge_private.recall_cursors(p_queues);
    v_limited jobforge.limited;
    v_registered jobforge.workers;  -- a long list in it is read only when it is used
    v_hash bigint;  -- of what this worker serves
    v_stamp text;  -- of what this worker serves and of what there is
    v_served text[];  -- a stamp, and whether everything is served
    v_tells_starts boolean;  -- to some webhook endpoint
    v_timeout integer;  -- of all definitions, where they have the same, as they mostly do
    v_groups integer := 32;
    v_queue record;
    v_round record;
    v_width integer;
    v_rounds integer;
    v_fruitless integer;
begin
    perform jobforge_private.check_claim(p_worker_id, p_queues, p_limits, p_lease_s);
    if p_registered then
        select w.* into v_registered
          from jobforge.workers as w
         where w.id = p_worker_id
           and (jobforge.tenant() is null or w.tenant_id = jobforge.tenant());
        if not found then
            perform jobforge_private.refuse('JF004', 'no such worker',
                jsonb_build_object('worker_id', p_worker_id), 'Register the worker again.');
        elsif p_definitions is not null then
            perform jobforge_private.refuse('JF002',
                'definitions must be null when the registered ones '
                || 'are used', '{"field": "definitions"}');
        end if;
        v_hash := v_registered.definitions_hash;
    elsif p_definitions is not null then
        -- Hashed here: handing a long array to a function costs more than that.
        v_hash := hash_array_extended(p_definitions collate "C", 0);
    end if;
    perform jobforge_private.promote_jobs(p_queues, p_limits);
    select array(select d.key from jobforge.definitions as d
                  where d.max_running is not null or d.rate_limit is not null
                     or d.paused_at is not null),
           array(select d.key from jobforge.definitions as d
                  where d.max_running_per_key is not null or d.rate_limit_per_key is not null),
           exists (select from jobforge.tenants as w
                    where w.max_running is not null or w.rate_limit is not null
                       or w.paused_at is not null),
           exists (select from jobforge.tenants as w where w.weight <> 1),
           exists (select from jobforge.webhook_endpoints as w
                    where w.enabled and 'start' = any (w.events)),
           (select case when min(d.timeout_s) = max(d.timeout_s) then min(d.timeout_s) end
              from jobforge.definitions as d)
      into v_limited.definitions, v_limited.definitions_by_key, v_limited.tenants,
           v_limited.weighted, v_tells_starts, v_timeout;
    if v_hash is not null then
        -- Definitions are never deleted: while there are as many, they are the same.
        v_stamp := v_hash || '/' || (select count(*) from jobforge.definitions);
        v_served := string_to_array(current_setting('jobforge.served', true), ' ');
        if v_served[1] is distinct from v_stamp then
            v_served := array[v_stamp, jobforge_private.serves_all(
                coalesce(p_definitions, v_registered.definitions))::text];
            perform set_config('jobforge.served', array_to_string(v_served, ' '), false);
        end if;
        if v_served[2] = 'true' then
            p_definitions := null;  -- so that no job has to be compared with them
        elsif p_registered then
            p_definitions := v_registered.definitions;
        end if;
    end if;

    for v_queue in
        select c.name, c.slots, q.max_running is not null or q.rate_limit is not null as is_limited
          from unnest(p_queues, p_limits) as c(name, slots)
          left join jobforge.queues as q on q.name = c.name
         where c.slots > 0 and q.paused_at is null
    loop
        v_limited.queue := v_queue.is_limited;
        v_width := v_queue.slots;
        v_rounds := 0;
        v_fruitless := 0;
        loop
            -- Assigned, not selected: for a single job a query costs more than what it calls.
            v_round := jobforge_private.pick_round(
                v_queue.name, v_queue.slots, v_width, v_tenants, p_definitions, v_limited,
                v_fruitless > 0, coalesce(v_cursors -> v_queue.name, '{}'), v_groups);
            v_cursors := v_cursors || jsonb_build_object(v_queue.name, v_round.cursor);
            v_groups := v_round.groups;

            if v_round.picked <> '{}' then
                v_now := jobforge_private.now();
                -- Not within the update, which would compute them anew for every job.
                v_lease := extract(epoch from v_now) * 1000000;
                v_lease_expires_at := v_now + make_interval(secs => p_lease_s);
                if v_tells_starts then
                    perform jobforge_private.notify_starts(v_round.picked, v_now);
                end if;
                return query
                update jobforge.jobs as j
                   set state = 'running',
                       attempt = j.attempt + 1,
                       lease = greatest(j.lease + 1, v_lease),
                       lease_expires_at = v_lease_expires_at,
                       worker_id = p_worker_id,
                       started_at = v_now,
                       deferrals = 0
                 where j.ctid = any (v_round.picked) and j.state = 'queued'
                returning j.tenant_id, j.id, j.lease, j.lease_expires_at, j.definition, j.version,
                          j.queue, j.priority, j.attempt, j.max_attempts,
                          coalesce(j.timeout_s, v_timeout, (
                              select d.timeout_s from jobforge.definitions as d
                               where d.key = j.definition and d.version = j.version)),
                          j.created_at, j.run_at, j.queued_at, j.started_at, j.source, j.source_ref,
                          j.correlation_id, j.traceparent, j.idempotency_key, j.limit_key, j.tags,
                          j.artifact_ref, j.flags, j.payload;
            end if;

            v_queue.slots := v_queue.slots - cardinality(v_round.picked);
            exit when v_queue.slots <= 0 or v_round.whole;
            v_rounds := v_rounds + 1;
            exit when v_rounds > 100;
            if v_round.picked <> '{}' then
                -- Some have fewer than their share: the next round asks everybody known.
                v_width := least(5000, greatest(v_queue.slots, cardinality(v_round.turns)));
                v_fruitless := 0;
                continue;
            elsif v_round.mended > 0 then
                v_width := least(v_width * 4, 5000);
                continue;
            end if;
            -- All that these tenants have is locked, full or not served: ask others, more at a
            -- time and whatever weight and order say, until something is found or everybody was
            -- asked.
            exit when v_fruitless > 8
                   or v_round.complete and (v_fruitless > 0 or v_round.turns = '{}');
            v_fruitless := v_fruitless + 1;
            v_width := least(greatest(v_width, cardinality(v_round.turns)) * 4, 5000);
            v_cursors := jsonb_set(v_cursors, array[v_queue.name, 'served'], '1000');
        end loop;
    end loop;
    perform set_config('jobforge.cursors', v_cursors::text, false);
end $$;
