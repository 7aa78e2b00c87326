-- Workers call this for up to p_limits[i] jobs of queue p_queues[i], as many as they have free
-- slots. Returns each job with a new lease, in no order. Rows that another worker is claiming are
-- skipped, never waited for. Tenants share by weight; within a tenant, the highest priority comes
-- first, then the earliest run_at. Due jobs are promoted first (promote_jobs).
-- p_definitions lists what the worker serves as key@version (null: all). With p_registered, the
-- worker serves the definitions that it passed to register_worker, so a long list is not sent with
-- each claim. p_tenants confines the claim to some tenants, and so does app.tenant_id.
-- Keeps hints in the settings jobforge.cursors and jobforge.served of this session; they can only
-- change which jobs this session gets (docs/query-plans.md).
-- Locks the jobs that it claims, and the limits that apply to them until the transaction ends.
-- Raises JF002, JF004 (p_registered, and the worker is not registered), JF006, and JF012 outside
-- READ COMMITTED.
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
    v_cursors jsonb := jobforge_private.load_cursors(p_queues);
    v_limited jobforge.limited;
    v_context record;
    v_registered jobforge.workers;  -- a long list in the row is detoasted only when it is used
    v_hash bigint;  -- of the definitions that the worker serves
    v_stamp text;  -- that hash, and the number of definitions
    v_served text[];  -- a stamp, and whether the worker serves all definitions
    v_timeout integer;  -- of all definitions, if it is the same for all
    v_groups integer := 32;
    v_queue record;
    v_round record;
    v_width integer;
    v_rounds integer;
    v_empty_rounds integer;
begin
    perform jobforge_private.check_claim(p_worker_id, p_queues, p_limits, p_lease_s);
    if p_registered then
        select w.* into v_registered
          from jobforge.workers as w
         where w.id = p_worker_id
           and (jobforge.tenant() is null or w.tenant_id = jobforge.tenant());
        if not found then
            perform jobforge_private.refuse('JF004', 'Worker not found',
                jsonb_build_object('worker_id', p_worker_id), 'Register the worker again.');
        elsif p_definitions is not null then
            perform jobforge_private.refuse('JF002',
                'definitions must be null if registered is true'
                || 'are used', '{"field": "definitions"}');
        end if;
        v_hash := v_registered.definitions_hash;
    elsif p_definitions is not null then
        -- Hashed here: passing a long array to another function costs more than hashing it.
        v_hash := hash_array_extended(p_definitions collate "C", 0);
    end if;
    perform jobforge_private.promote_jobs(p_queues, p_limits);
    v_context := jobforge_private.claim_context();
    v_limited := v_context.limited;
    v_timeout := v_context.timeout_s;
    if v_hash is not null then
        -- Definitions are never deleted: an equal number means the same definitions.
        v_stamp := v_hash || '/' || (select count(*) from jobforge.definitions);
        v_served := string_to_array(current_setting('jobforge.served', true), ' ');
        if v_served[1] is distinct from v_stamp then
            v_served := array[v_stamp, jobforge_private.serves_all(
                coalesce(p_definitions, v_registered.definitions))::text];
            perform set_config('jobforge.served', array_to_string(v_served, ' '), false);
        end if;
        if v_served[2] = 'true' then
            p_definitions := null;  -- so that jobs are not compared with the list
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
        v_empty_rounds := 0;
        loop
            -- An assignment, not a query: for a single job, starting a query would cost more than
            -- the call.
            v_round := jobforge_private.pick_round(
                v_queue.name, v_queue.slots, v_width, v_tenants, p_definitions, v_limited,
                v_empty_rounds > 0, coalesce(v_cursors -> v_queue.name, '{}'), v_groups);
            v_cursors := v_cursors || jsonb_build_object(v_queue.name, v_round.cursor);
            v_groups := v_round.groups;

            if v_round.picked <> '{}' then
                v_now := jobforge_private.now();
                -- Computed once, not for every row of the update.
                v_lease := extract(epoch from v_now) * 1000000;
                v_lease_expires_at := v_now + make_interval(secs => p_lease_s);
                if v_context.wants_starts then
                    perform jobforge_private.notify_job_starts(v_round.picked, v_now);
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
                -- Some tenants had fewer jobs than their quota: ask all known tenants next.
                v_width := least(5000, greatest(v_queue.slots, cardinality(v_round.heads)));
                v_empty_rounds := 0;
                continue;
            elsif v_round.corrected > 0 then
                v_width := least(v_width * 4, 5000);
                continue;
            end if;
            -- All jobs of these tenants are locked, over a limit or not served by this worker: ask
            -- other tenants, more in each round and regardless of weight and order, until a round
            -- finds jobs or all tenants were asked.
            exit when v_empty_rounds > 8
                   or v_round.complete and (v_empty_rounds > 0 or v_round.heads = '{}');
            v_empty_rounds := v_empty_rounds + 1;
            v_width := least(greatest(v_width, cardinality(v_round.heads)) * 4, 5000);
            v_cursors := jsonb_set(v_cursors, array[v_queue.name, 'served'], '1000');
        end loop;
    end loop;
    perform set_config('jobforge.cursors', v_cursors::text, false);
end $$;
