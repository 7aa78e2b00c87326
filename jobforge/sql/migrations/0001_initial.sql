-- The tables, views and types of schema jobforge, by subject:
--
--   1 settings      definitions, tenants, queues, workers
--   2 jobs          live jobs, the history, idempotency keys
--   3 leases        heartbeats, the reaper, and views over jobs
--   4 claims        rate limits, locks, and types for limits and fair shares
--   5 completion    types for jobs that ended
--   6 workflows     dependencies, workflows, batches
--   7 steps         durable steps and waits
--   8 triggers      schedules, event triggers, firings
--   9 events        events, the outbox, deliveries to triggers
--  10 webhooks      endpoints and deliveries
--  11 connectors    configurations and the keys that seal their secrets
--  12 artifacts     stores, and sweeps of unused artifacts
--  13 API access    API keys, dashboard sessions, request rates
--  14 operations    bulk actions, notes on failures, the audit log
--  15 statistics    sums by minute, maintenance tasks, the event stream
--
-- Only the functions of schema jobforge write rows. Every table is under forced row-level security;
-- policies and grants are in access.sql. In tables with many rows, columns of fixed width come
-- first, so that rows have no padding.


-- 1 Settings --------------------------------------------------------------------------------------

-- Each version of each definition: the settings that code registered, the overrides that operators
-- set, and the effective settings. The engine reads only the effective settings, the columns below
-- the two documents.
create table jobforge.definitions (
    key text not null,
    version integer not null,
    registered jsonb not null,
    overrides jsonb not null default '{}',
    description text,
    parameters jsonb,
    queue text not null,
    timeout_s integer not null,
    max_attempts integer not null,
    backoff_base_s double precision not null,
    backoff_cap_s double precision not null,
    max_running integer,
    max_running_per_key integer,
    rate_limit integer,
    rate_period_s double precision not null,
    rate_burst integer,
    rate_limit_per_key integer,
    rate_period_per_key_s double precision not null,
    rate_burst_per_key integer,
    is_active boolean not null,
    hooks boolean not null default false,
    paused_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint definitions_pkey primary key (key, version),
    constraint definition_keys_are_names check (key ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$'),
    constraint definition_versions_count_from_one check (version > 0),
    constraint definition_limits_are_positive
        check (max_running > 0 and max_running_per_key > 0
           and rate_limit > 0 and rate_period_s > 0 and rate_burst > 0
           and rate_limit_per_key > 0 and rate_period_per_key_s > 0 and rate_burst_per_key > 0),
    constraint definition_retries_are_bounded
        check (max_attempts between 1 and 1000 and timeout_s between 1 and 604800
           and backoff_base_s between 0 and 86400 and backoff_cap_s between 0 and 604800)
);
-- Every claim asks which definitions are limited, and whether all have the same timeout. These
-- indexes answer without reading all definitions.
create index definitions_limited on jobforge.definitions (key)
    where max_running is not null or rate_limit is not null or paused_at is not null;
create index definitions_limited_per_key on jobforge.definitions (key)
    where max_running_per_key is not null or rate_limit_per_key is not null;
create index definitions_by_timeout on jobforge.definitions (timeout_s);

-- Settings of tenants. A tenant without settings has no row and needs none.
create table jobforge.tenants (
    id uuid not null,
    slug text,
    name text,
    timezone text not null default 'UTC',
    weight integer not null default 1,
    max_running integer,
    max_pending integer,
    rate_limit integer,
    rate_period_s double precision not null default 1,
    rate_burst integer,
    paused_at timestamptz,
    -- Set when the tenant is erased (delete_tenant). The row keeps only the ID and this time, so
    -- that no row is ever stored for the ID again.
    erased_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint tenants_pkey primary key (id),
    constraint tenant_slugs_are_unique unique (slug),
    constraint tenant_slugs_are_names check (slug ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    constraint tenant_weights_are_bounded check (weight between 1 and 1000),
    constraint tenant_limits_are_positive
        check (max_running > 0 and max_pending > 0
           and rate_limit > 0 and rate_period_s > 0 and rate_burst > 0)
);
-- Every claim asks whether any tenant has a weight or a limit; most have neither. The caps are in
-- the index so that a claim that counts many full tenants reads them in order.
create index tenants_weighted on jobforge.tenants (id) where weight <> 1;
create index tenants_limited on jobforge.tenants (id, max_running)
    where max_running is not null or rate_limit is not null or paused_at is not null;

-- Logins that may act only for the listed tenants (see jobforge.tenant). A login without a row is
-- not confined: the setting app.tenant_id alone decides. An empty array allows no tenant: the
-- erasure of a tenant removes its ID from the array and keeps the row, or else the login would no
-- longer be confined. Logins are stored by name, not OID, so that a dump can be restored into
-- another cluster.
create table jobforge.bound_logins (
    login name not null,
    tenants uuid[] not null,
    bound_at timestamptz not null,
    bound_by text not null,
    constraint bound_logins_pkey primary key (login),
    constraint bound_logins_have_few_tenants
        check (cardinality(tenants) <= 1000 and array_position(tenants, null) is null)
);

-- A queue exists when a job names it. It has a row only if it was paused or limited.
create table jobforge.queues (
    name text not null,
    max_running integer,
    rate_limit integer,
    rate_period_s double precision not null default 1,
    rate_burst integer,
    paused_at timestamptz,
    updated_at timestamptz not null,
    constraint queues_pkey primary key (name),
    constraint queue_names_are_names check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}$'),
    constraint queue_limits_are_positive
        check (max_running > 0 and rate_limit > 0 and rate_period_s > 0 and rate_burst > 0)
);

-- Worker processes of the last day. A worker is live until `live_until`, when the leases that its
-- last heartbeat extended expire. `memory_bytes` and `clock_skew_s` (the worker's clock minus the
-- database's) are of that heartbeat. `isolation` is the level at which jobs are isolated, or
-- null without isolation. A worker that serves one tenant has its ID in `tenant_id`; `owner`
-- registered the worker.
create table jobforge.workers (
    id uuid not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    live_until timestamptz not null,
    stopped_at timestamptz,
    memory_bytes bigint,
    clock_skew_s double precision,
    pid integer,
    slots integer not null,
    running integer not null default 0,
    host text,
    build text,
    isolation text,
    command text,
    queues text[] not null,
    definitions text[],
    -- Hash of `definitions`: a session compares the list only when the hash has changed.
    definitions_hash bigint,
    tenant_id uuid,
    owner text,
    constraint workers_pkey primary key (id),
    constraint worker_commands_are_known check (command in ('drain', 'stop'))
);


-- 2 Jobs ------------------------------------------------------------------------------------------

-- Jobs that can still change: the backlog, running jobs and dead jobs. Jobs that succeeded or were
-- canceled move to finished_jobs, so this table stays small however long the history is. The
-- columns that a claim writes are adjacent, from `lease` to `state`: if the new version of a row is
-- on the same page as the old one, the WAL has only the bytes from the first difference to the
-- last. A job has `allowance` attempts. A dead job that is revived gets `allowance` more on top of
-- max_attempts, so that attempt numbers continue. `flags` is a bit mask that spares completions a
-- lookup in other tables; docs/query-plans.md lists its bits.
create table jobforge.jobs (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    run_at timestamptz not null,
    queued_at timestamptz,
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    finished_at timestamptz,
    retry_of uuid,
    version integer not null,
    max_attempts integer not null,
    allowance integer not null,
    timeout_s integer,
    priority smallint not null default 0,
    flags smallint not null default 0,
    lease bigint not null default 0,
    lease_expires_at timestamptz,
    started_at timestamptz,
    worker_id uuid,
    attempt integer not null default 0,
    deferrals smallint not null default 0,
    state text not null,
    definition text not null,
    queue text not null,
    source text not null default 'manual',
    gate text,
    limit_key text,
    idempotency_key text,
    source_ref text,
    correlation_id text,
    traceparent text,
    created_by text,
    cancel_reason text,
    fingerprint text,
    artifact_ref text,
    tags text[],
    error jsonb,
    payload jsonb not null,
    result jsonb,

    -- Deduplication of index entries is off: versions of a row have equal keys only until vacuum
    -- removes the old ones.
    constraint jobs_pkey primary key (tenant_id, id) with (deduplicate_items = off),
    -- Postgres parses the text of each constraint for every statement that writes jobs, so the
    -- constraints are short: an array constant is half as long as a list.
    constraint jobs_are_in_a_live_state
        check (state = any ('{scheduled,blocked,queued,running,dead}')),
    constraint running_jobs_hold_a_lease
        check ((state = 'running') = (worker_id is not null)
           and (worker_id is null) = (lease_expires_at is null)),
    constraint queued_jobs_have_a_queue_time check (state <> 'queued' or queued_at is not null),
    constraint dead_jobs_have_an_end check ((state = 'dead') = (finished_at is not null)),
    constraint attempts_stay_within_the_allowance check (attempt between 0 and max_attempts),
    constraint only_running_jobs_are_asked_to_cancel
        check (cancel_requested_at is null or worker_id is not null)
) with (
    -- A claim writes a new, slightly longer version of the row. Free space on the page keeps it on
    -- the same page.
    fillfactor = 45,
    -- A queue turns over completely every few seconds. Vacuum after a fixed number of dead rows,
    -- not a share of the table, and without pauses.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 10000
);
-- Claims scan this index: runnable jobs in the order in which they are claimed. The priority is
-- negated so that all columns ascend: a scan can then start at any row by comparing the whole key.
create index jobs_ready on jobforge.jobs (queue, tenant_id, (- priority::integer), run_at, id)
    where state = 'queued' and gate is null;
-- Runnable jobs under a cap, a rate limit or a pause, by group (gate), so that a scan skips a full
-- group without reading its jobs.
create index jobs_gated on jobforge.jobs (queue, tenant_id, gate, (- priority::integer), run_at, id)
    where state = 'queued' and gate is not null;
create index jobs_due on jobforge.jobs (run_at)
    where state = 'scheduled';
create index jobs_leased on jobforge.jobs (lease_expires_at) with (deduplicate_items = off)
    where state = 'running';
-- Running jobs that count toward a cap. Only jobs under a limit are in these three indexes.
create index jobs_held_by_tenant on jobforge.jobs (tenant_id, definition, limit_key)
    where state = 'running' and gate is not null;
create index jobs_held_by_definition on jobforge.jobs (definition)
    where state = 'running' and gate is not null;
create index jobs_held_by_queue on jobforge.jobs (queue)
    where state = 'running' and gate is not null;
-- Dead jobs, all and by fingerprint. The two conditions are equivalent but written differently, so
-- that a query can select one of the indexes.
create index jobs_dead on jobforge.jobs (tenant_id, id)
    where finished_at is not null;
create index jobs_dead_alike on jobforge.jobs (tenant_id, fingerprint, id)
    where state = 'dead';
create index jobs_expiring on jobforge.jobs (expires_at)
    where expires_at is not null and started_at is null;
-- Jobs that wait for other jobs. Maintenance checks whether each still has a reason to wait
-- (free_blocked_jobs).
create index jobs_blocked on jobforge.jobs (tenant_id, id)
    where state = 'blocked';
-- Unfinished jobs of a schedule. Other jobs are not in this index.
create index jobs_of_a_schedule on jobforge.jobs (tenant_id, source_ref)
    where source = 'schedule';
-- Jobs that name an artifact; few do. Ordered by bytes, because a folder of artifacts is found by
-- its prefix.
create index jobs_with_artifacts on jobforge.jobs (tenant_id, artifact_ref collate "C")
    where artifact_ref is not null;

-- Jobs that succeeded or were canceled. Rows are only inserted, except by an erasure; retention
-- drops whole days. If `txid` is set, the row also records the job's last attempt: the attempt
-- succeeded, and has no details beyond this row. Nearly all jobs finish like this, with one row and
-- without values that equal an earlier column: `run_at` is null if equal to created_at, `queued_at`
-- if equal to run_at, `allowance` if equal to max_attempts. The views fill them in.
create table jobforge.finished_jobs (
    tenant_id uuid not null,
    id uuid not null,
    lease bigint not null,
    created_at timestamptz not null,
    run_at timestamptz,
    queued_at timestamptz,
    started_at timestamptz,
    cancel_requested_at timestamptz,
    expires_at timestamptz,
    finished_at timestamptz not null,
    txid xid8,
    worker_id uuid,
    retry_of uuid,
    version integer not null,
    attempt integer not null,
    max_attempts integer not null,
    allowance integer,
    timeout_s integer,
    priority smallint not null,
    flags smallint not null,
    state text not null,
    definition text not null,
    queue text not null,
    source text not null,
    limit_key text,
    idempotency_key text,
    source_ref text,
    correlation_id text,
    traceparent text,
    created_by text,
    cancel_reason text,
    fingerprint text,
    artifact_ref text,
    tags text[],
    error jsonb,
    payload jsonb not null,
    result jsonb,

    constraint finished_jobs_pkey primary key (tenant_id, id, finished_at),
    constraint finished_jobs_are_in_a_final_state check (state in ('succeeded', 'canceled'))
) partition by range (finished_at);
create table jobforge.finished_jobs_default partition of jobforge.finished_jobs default;
create index finished_jobs_in_order on jobforge.finished_jobs (txid) where txid is not null;
create index finished_jobs_with_artifacts
    on jobforge.finished_jobs (tenant_id, artifact_ref collate "C")
    where artifact_ref is not null;

-- Ended leases: the outcome, and the state that the job went to. The last attempt
-- of a finished job is stored in `finished_jobs` instead. The view `all_attempts` returns all
-- attempts.
create table jobforge.attempts (
    tenant_id uuid not null,
    job_id uuid not null,
    worker_id uuid not null,
    lease bigint not null,
    queued_at timestamptz,
    started_at timestamptz not null,
    ended_at timestamptz not null,
    txid xid8 not null default pg_current_xact_id(),
    peak_memory_bytes bigint,
    cpu_ms bigint,
    version integer not null,
    attempt integer not null,
    exit_code integer,
    pid integer,
    outcome text not null,
    state text not null,
    definition text not null,
    queue text not null,
    fingerprint text,
    error jsonb,
    stdout_tail text,
    stderr_tail text,

    constraint attempts_pkey primary key (tenant_id, job_id, lease, ended_at),
    constraint attempts_end_in_a_known_way
        check (outcome in ('succeeded', 'failed', 'timed_out', 'crashed', 'lease_lost',
                           'canceled', 'released', 'snoozed')
           and state in ('succeeded', 'scheduled', 'dead', 'canceled', 'queued', 'blocked')),
    constraint attempts_count_from_one check (attempt > 0)
) partition by range (ended_at);
create table jobforge.attempts_default partition of jobforge.attempts default;
-- The event stream reads the history in the order of transactions. An append to the right end of an
-- index of equal numbers is the cheapest index write, and every attempt pays for it. So tenant_id
-- is not in the index, and a tenant that catches up skips the rows of others. The stream does not
-- have log lines, so they are not in the indexes.
create index attempts_in_order on jobforge.attempts (txid);

-- Timeline entries that jobs and attempts do not have: progress, log lines, custom events and
-- operator actions.
create table jobforge.job_events (
    tenant_id uuid not null,
    job_id uuid not null,
    at timestamptz not null,
    txid xid8 not null default pg_current_xact_id(),
    kind text not null,
    actor text,
    data jsonb
) partition by range (at);
create index job_events_of_a_job on jobforge.job_events (tenant_id, job_id, at);
create table jobforge.job_events_default partition of jobforge.job_events default;
-- Two entries of a job may be equal, so the table has no primary key. Entries are only inserted and
-- deleted, and only a delete writes its whole row to the WAL. build_partition sets the same for new
-- partitions.
alter table jobforge.job_events replica identity full;
alter table jobforge.job_events_default replica identity full;
create index job_events_in_order on jobforge.job_events (txid) where kind <> 'log';
-- Idempotency keys of enqueues, and the job that each key belongs to. A key with `while_active`
-- expires when the job finishes, any other at `expires_at`.
create table jobforge.idempotency_keys (
    tenant_id uuid not null,
    job_id uuid not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    while_active boolean not null,
    definition text not null,
    key text not null,
    payload_hash bytea not null,
    constraint idempotency_keys_pkey primary key (tenant_id, definition, key)
);
create index idempotency_keys_expiring on jobforge.idempotency_keys (expires_at);
create index idempotency_keys_of_active_jobs on jobforge.idempotency_keys (tenant_id, job_id)
    where while_active;
create index idempotency_keys_of_a_job on jobforge.idempotency_keys (tenant_id, job_id);

-- A definition as an enqueue names it, with the settings that its jobs copy.
create type jobforge.named_definition as (
    name text,
    wanted integer,
    key text,
    version integer,
    queue text,
    max_attempts integer,
    is_key_limited boolean,
    is_limited boolean,
    flags smallint
);

-- A count of a tenant's pending jobs with IDs below `before`, valid until a time, as
-- jobforge_private.check_pending_limit uses it.
create type jobforge.pending_count as (
    until timestamptz,
    before uuid,
    jobs bigint
);

-- The conditions of a list or a bulk action; null means no condition.
create type jobforge.job_filter as (
    states text[],
    wants_live boolean,
    wants_finished boolean,
    wants_failed boolean,
    wants_canceling boolean,
    definition text,
    queue text,
    tag text,
    source text,
    key text,
    correlation_id text,
    fingerprint text,
    created_after timestamptz,
    created_before timestamptz
);


-- 3 Leases ----------------------------------------------------------------------------------------

-- The last heartbeat of each job that runs long enough to send one. Heartbeats are written here,
-- never to jobs, so a transaction that holds the row of a job does not stop its heartbeats. A lease
-- ends at the later of `expires_at` here and jobs.lease_expires_at. The columns that a heartbeat
-- writes are not indexed, so each heartbeat is a heap-only update. `beat_at` is null if
-- reap_jobs() inserted the row to prevent a late first heartbeat. Retention deletes the rows of
-- ended leases.
create table jobforge.heartbeats (
    tenant_id uuid not null,
    job_id uuid not null,
    worker_id uuid not null,
    lease bigint not null,
    beat_at timestamptz,
    expires_at timestamptz not null,
    constraint heartbeats_pkey primary key (tenant_id, job_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The time of the last call of reap_jobs, and the last outage: a period of more than five seconds
-- without a call. Workers that serve all tenants share the row of the nil UUID. Workers that serve
-- one tenant use a row of that tenant, so that no tenant can hide an outage from the others.
create table jobforge.reaper (
    tenant_id uuid not null,
    reaped_at timestamptz,
    outage_from timestamptz,
    outage_until timestamptz,
    constraint reaper_pkey primary key (tenant_id),
    constraint an_outage_has_both_ends check ((outage_from is null) = (outage_until is null))
) with (fillfactor = 10);
insert into jobforge.reaper (tenant_id) values ('00000000-0000-0000-0000-000000000000');

-- All jobs, live or finished, for reading. Applies the caller's row-level security.
create view jobforge.all_jobs with (security_invoker = true) as
select j.tenant_id, j.id, j.state, j.definition, j.version, j.queue, j.priority, j.attempt,
       j.max_attempts, j.created_at, j.run_at, j.queued_at, j.started_at, j.finished_at,
       case when j.state = 'running' then coalesce((
           select h.beat_at from jobforge.heartbeats as h
            where h.tenant_id = j.tenant_id and h.job_id = j.id and h.lease = j.lease),
           j.started_at) end as heartbeat_at,
       case when j.state = 'running' then greatest(j.lease_expires_at, (
           select h.expires_at from jobforge.heartbeats as h
            where h.tenant_id = j.tenant_id and h.job_id = j.id and h.lease = j.lease))
           end as lease_expires_at,
       j.cancel_requested_at, j.expires_at, j.worker_id,
       j.lease, j.source, j.source_ref, j.correlation_id, j.traceparent, j.idempotency_key,
       j.limit_key, j.tags, j.created_by, j.retry_of, j.timeout_s, j.cancel_reason, j.fingerprint,
       j.error, j.payload, j.result, j.artifact_ref
  from jobforge.jobs as j
union all
select f.tenant_id, f.id, f.state, f.definition, f.version, f.queue, f.priority, f.attempt,
       f.max_attempts, f.created_at, coalesce(f.run_at, f.created_at),
       case when f.txid is null then f.queued_at
            else coalesce(f.queued_at, f.run_at, f.created_at) end, f.started_at, f.finished_at,
       null, null, f.cancel_requested_at, f.expires_at, f.worker_id,
       f.lease, f.source, f.source_ref, f.correlation_id, f.traceparent, f.idempotency_key,
       f.limit_key, f.tags, f.created_by, f.retry_of, f.timeout_s, f.cancel_reason, f.fingerprint,
       f.error, f.payload, f.result, f.artifact_ref
  from jobforge.finished_jobs as f;

-- All ended leases, for reading. Applies the caller's row-level security.
create view jobforge.all_attempts with (security_invoker = true) as
select a.tenant_id, a.job_id, a.worker_id, a.lease, a.queued_at, a.started_at, a.ended_at, a.txid,
       a.peak_memory_bytes, a.cpu_ms, a.version, a.attempt, a.exit_code, a.pid, a.outcome, a.state,
       a.definition, a.queue, a.fingerprint, a.error, a.stdout_tail, a.stderr_tail
  from jobforge.attempts as a
union all
select f.tenant_id, f.id, f.worker_id, f.lease, coalesce(f.queued_at, f.run_at, f.created_at),
       f.started_at, f.finished_at, f.txid, null, null, f.version, f.attempt, null, null,
       'succeeded', 'succeeded', f.definition, f.queue, null, null, null, null
  from jobforge.finished_jobs as f
 -- Not "is not null", which would make the planner choose the index on txid for every query.
 -- Queries that compare txid still use that index.
 where coalesce(f.txid > '0', false);


-- 4 Claims ----------------------------------------------------------------------------------------

-- Token buckets of rate limits. The first claim under a limit inserts the row.
create table jobforge.rate_limits (
    bucket text not null,
    tokens double precision not null,
    refilled_at timestamptz not null,
    constraint rate_limits_pkey primary key (bucket)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Rows that are used as locks: only the engine can lock a row here, while every login of a database
-- can take any advisory lock. The rows are locked and never changed. Locks of the installation have
-- the nil UUID; the limits of claims share 4,096 of them. A missing row is inserted when it is
-- needed (acquire_lock, try_lock).
create table jobforge.locks (
    tenant_id uuid not null,
    name text not null,
    constraint locks_pkey primary key (tenant_id, name)
);
insert into jobforge.locks (tenant_id, name)
select '00000000-0000-0000-0000-000000000000', l.name
  from (select unnest('{declared,partitions,scheduler,statistics}'::text[])
        union all
        select 'limit ' || n from generate_series(0, 4095) as n) as l(name);

-- The key that signs the values that the engine keeps in session settings, because every login can
-- change those (see sign). Each database has a random key.
create table jobforge.signing_key (
    is_only boolean not null default true,
    value bytea not null,
    constraint signing_key_pkey primary key (is_only),
    constraint there_is_one_signing_key check (is_only),
    constraint signing_keys_are_long check (octet_length(value) = 32)
);
insert into jobforge.signing_key (value)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- One limit of a group of jobs, as returned by jobforge_private.group_limits.
create type jobforge.group_limit as (
    kind text,
    subject text,
    max_running integer,
    rate_limit integer,
    rate_period_s double precision,
    rate_burst integer,
    changed_at timestamptz
);

-- The head of a tenant in a queue: the position of its first ready job, the tenant's quota in one
-- round of a claim, and the row of that job if this claim has just read it.
create type jobforge.tenant_head as (
    tenant_id uuid,
    rank integer,
    run_at timestamptz,
    id uuid,
    quota integer,
    row_id tid
);

-- The heads of the tenants of a queue, as a session remembers them (store_heads). Arrays instead of
-- rows, and times as seconds, because every claim parses and prints the value as text.
create type jobforge.tenant_heads as (
    tenants uuid[],
    ranks integer[],
    run_ats double precision[],
    ids uuid[]
);

-- The ready jobs that one round of a claim found: rows to claim, the number of other rows that it
-- corrected, the position of each tenant's next job if positions are remembered, and whether the
-- rows to claim include the first job of the first tenant.
create type jobforge.ready_jobs as (
    picked tid[],
    corrected bigint,
    reached jobforge.tenant_head[],
    has_front boolean
);

-- The limits and pauses that apply to a claim: the limited definitions, the definitions with limits
-- per key, whether any tenant is limited, whether the queue is, and whether any tenant has a
-- weight. `full_definitions` are the definitions without a free slot or token, counted once in a
-- round.
create type jobforge.limited as (
    definitions text[],
    definitions_by_key text[],
    tenants boolean,
    queue boolean,
    weighted boolean,
    full_definitions text[]
);

-- A group of jobs with the same limits, as a claim finds it in a queue: its gate and the position
-- of its first job.
create type jobforge.open_group as (
    gate text,
    definition text,
    rank integer,
    run_at timestamptz,
    id uuid
);


-- 5 Completion ------------------------------------------------------------------------------------

-- A job whose lease ended, or that was canceled without a lease, as passed to follow_up: the state
-- before and after, the outcome of the attempt (null without one), and the fields that callbacks,
-- webhooks and workflows need.
create type jobforge.ended_job as (
    tenant_id uuid,
    id uuid,
    lease bigint,
    was text,
    state text,
    outcome text,
    definition text,
    version integer,
    queue text,
    priority smallint,
    flags smallint,
    attempt integer,
    max_attempts integer,
    created_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    source text,
    source_ref text,
    correlation_id text,
    traceparent text,
    artifact_ref text,
    reason text,
    error jsonb,
    payload jsonb,
    result jsonb
);

-- The jobs that a settle finished, with their new states, as parallel arrays.
create type jobforge.settled_jobs as (
    tenants uuid[],
    jobs uuid[],
    leases bigint[],
    states text[]
);


-- 6 Workflows -------------------------------------------------------------------------------------

-- The parents of each job. Written when the child is enqueued, and never changed: handlers read
-- their parents here, and get_job shows the graph. awaited_jobs has the parents that are still
-- awaited.
create table jobforge.dependencies (
    tenant_id uuid not null,
    child_id uuid not null,
    parent_id uuid not null,
    created_at timestamptz not null,
    on_parent_failure text not null,
    constraint dependencies_pkey primary key (tenant_id, child_id, parent_id),
    constraint policies_on_failure_are_known
        check (on_parent_failure in ('cancel', 'run', 'wait'))
);
create index dependencies_of_a_parent on jobforge.dependencies (tenant_id, parent_id);
-- Rows are in order of time on disk, so a block range index suffices for retention.
create index dependencies_by_age on jobforge.dependencies using brin (created_at);

-- The parents that blocked jobs still wait for: a job is free when it has no row here. A parent
-- that finishes deletes its rows, so no counter can become wrong. `is_within`: both jobs are in one
-- workflow, which therefore continues after the parent.
create table jobforge.awaited_jobs (
    tenant_id uuid not null,
    waiter_id uuid not null,
    job_id uuid not null,
    is_within boolean not null,
    on_parent_failure text not null,
    constraint awaited_jobs_pkey primary key (tenant_id, waiter_id, job_id)
) with (
    -- Like jobs, the table turns over completely.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 10000
);
create index awaited_jobs_by_job on jobforge.awaited_jobs (tenant_id, job_id);

-- Workflows and batches. The jobs of a batch have no names and do not wait for each other.
-- `live_from` is a position: all jobs before it have finished, so repeated searches for an
-- unfinished job read each job once. An inner workflow has `parent_id`, and is the node `node` of
-- that workflow. `counts` has the number of jobs in each final state, once all have finished.
create table jobforge.workflows (
    tenant_id uuid not null,
    id uuid not null,
    parent_id uuid,
    created_at timestamptz not null,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    depth integer not null default 0,
    size integer not null default 0,
    live_from integer not null default 1,
    is_open boolean not null default false,
    kind text not null,
    state text not null default 'running',
    name text,
    node text,
    correlation_id text,
    created_by text not null,
    called text[] not null default '{}',
    callbacks jsonb not null default '{}',
    input jsonb,
    counts jsonb,

    constraint workflows_pkey primary key (tenant_id, id),
    constraint workflow_kinds_are_known check (kind in ('workflow', 'batch')),
    constraint workflow_states_are_known
        check (state in ('running', 'succeeded', 'failed', 'canceled')),
    constraint ended_workflows_have_an_end check ((state = 'running') = (finished_at is null)),
    constraint only_batches_are_open check (not is_open or kind = 'batch' and finished_at is null)
) with (fillfactor = 70);
create index workflows_by_kind on jobforge.workflows (tenant_id, kind, id);
create index workflows_within on jobforge.workflows (tenant_id, parent_id)
    where parent_id is not null;
create index workflows_ended on jobforge.workflows (finished_at) where finished_at is not null;

-- The nodes of a workflow in order; each is a job or an inner workflow. A node that is retried
-- names its new job.
create table jobforge.workflow_jobs (
    tenant_id uuid not null,
    workflow_id uuid not null,
    job_id uuid,
    inner_id uuid,
    position integer not null,
    name text,
    constraint workflow_jobs_pkey primary key (tenant_id, workflow_id, position),
    constraint nodes_are_jobs_or_workflows check ((job_id is null) <> (inner_id is null))
) with (fillfactor = 90);
create unique index workflow_jobs_have_names on jobforge.workflow_jobs
    (tenant_id, workflow_id, name) where name is not null;
create unique index workflow_jobs_by_job on jobforge.workflow_jobs (tenant_id, job_id)
    where job_id is not null;

-- An edge from a parent to a job that was just inserted. `is_new`: the same call inserted the
-- parent. `state` is the parent's state.
create type jobforge.edge as (
    child_id uuid,
    parent_id uuid,
    is_new boolean,
    on_parent_failure text,
    state text
);

-- A job that waited for a job that has finished, as returned by
-- jobforge_private.take_waiting_children. `is_doomed`: the parent failed, and the child's policy is
-- to be canceled then.
create type jobforge.waiting_child as (
    tenant_id uuid,
    child_id uuid,
    parent_id uuid,
    is_within boolean,
    is_doomed boolean
);

-- A node of a workflow or of its inner workflows, as returned by jobforge_private.list_nodes.
-- `path` is its name after the names of the workflows around it; `state` is the state of its job.
create type jobforge.workflow_node as (
    workflow_id uuid,
    job_id uuid,
    place integer[],
    path text,
    state text,
    definition text,
    version integer,
    queue text,
    attempt integer,
    max_attempts integer,
    created_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    result jsonb,
    error jsonb
);


-- 7 Steps -----------------------------------------------------------------------------------------

-- Results of durable steps. A row is written once, under the lease of the attempt that ran the
-- step, and read by all later attempts. An event without a result timed out. Rows stay as long as
-- their job can run again, and then as long as its history.
create table jobforge.steps (
    tenant_id uuid not null,
    job_id uuid not null,
    lease bigint not null,
    at timestamptz not null,
    index integer not null,
    bytes integer not null default 0,
    kind text not null,
    name text not null,
    result jsonb,
    constraint steps_pkey primary key (tenant_id, job_id, kind, name, index),
    constraint steps_are_of_a_known_kind
        check (kind in ('step', 'sleep', 'event', 'enqueue', 'gather'))
);
create index steps_by_age on jobforge.steps (at);

-- Jobs that wait in the middle of an attempt: for a time, an event or other jobs. They hold no
-- slot. The transaction that deletes the row ends the wait, so each wait ends once. Events that
-- were emitted before the wait was registered count as well: `look_back_to` is the time from which
-- events count, and is null once a scheduler has checked them.
create table jobforge.waits (
    tenant_id uuid not null,
    job_id uuid not null,
    lease bigint not null,
    since timestamptz not null,
    expires_at timestamptz,
    look_back_to timestamptz,
    index integer not null,
    kind text not null,
    name text not null,
    match jsonb not null default '{}',
    jobs uuid[],
    constraint waits_pkey primary key (tenant_id, job_id),
    constraint waits_are_of_a_known_kind check (kind in ('sleep', 'event', 'gather')),
    constraint only_gathers_wait_for_jobs check ((kind = 'gather') = (jobs is not null)),
    constraint only_waits_for_events_look_back check (look_back_to is null or kind = 'event'),
    constraint gathers_wait_without_end check ((kind = 'gather') = (expires_at is null))
);
create index waits_for_events on jobforge.waits (tenant_id, name) where kind = 'event';
create index waits_to_look_back on jobforge.waits (tenant_id, job_id)
    where look_back_to is not null;


-- 8 Triggers --------------------------------------------------------------------------------------

-- Schedules and event triggers. A schedule counts from `since`: when it was created, enabled, or
-- given another time. `due_at` is when the scheduler next reads it: at once if it must be planned,
-- then at next_run_at, never if it is disabled or has ended. `declared` is its name in code.
-- `fault` is the reason for which the scheduler disabled it.
create table jobforge.triggers (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz,
    last_fired_at timestamptz,
    since timestamptz not null,
    due_at timestamptz,
    next_run_at timestamptz,
    starts_at timestamptz,
    ends_at timestamptz,
    version integer,
    catch_up_limit integer not null default 10,
    jitter_s integer not null default 0,
    dedupe_window_s integer not null default 300,
    priority smallint not null default 0,
    enabled boolean not null default true,
    type text not null,
    label text not null,
    definition text not null,
    queue text,
    created_by text not null,
    declared text,
    fault text,
    cron text,
    timezone text not null default 'tenant',
    catch_up text not null default 'last',
    overlap text not null default 'allow',
    event text,
    dedupe_key text,
    payload jsonb not null default '{}',
    filter jsonb not null default '[]',

    constraint triggers_pkey primary key (tenant_id, id),
    constraint trigger_types_are_known check (type in ('schedule', 'event')),
    constraint schedules_have_a_cron check ((type = 'schedule') = (cron is not null)),
    constraint event_triggers_have_an_event check ((type = 'event') = (event is not null)),
    constraint only_live_schedules_are_due
        check (due_at is null or type = 'schedule' and enabled and deleted_at is null),
    constraint catch_ups_are_known
        check (catch_up in ('none', 'last', 'all') and catch_up_limit between 1 and 100),
    constraint overlaps_are_known
        check (overlap in ('allow', 'skip', 'queue', 'cancel_running')),
    constraint schedules_end_after_they_start check (ends_at > starts_at)
) with (fillfactor = 70);
create index triggers_due on jobforge.triggers (due_at) where due_at is not null;
create index triggers_listening on jobforge.triggers (tenant_id, event)
    where type = 'event' and enabled and deleted_at is null;
create unique index triggers_declared on jobforge.triggers (tenant_id, declared, type)
    where declared is not null;
create index triggers_deleted on jobforge.triggers (deleted_at) where deleted_at is not null;

-- Firings of schedules: the outcome of each, and why a firing created no job. A row in state
-- `pending` was requested manually, and the scheduler has not processed it yet.
create table jobforge.firings (
    tenant_id uuid not null,
    trigger_id uuid not null,
    fire_at timestamptz not null,
    at timestamptz not null,
    job_id uuid,
    kind text not null default 'schedule',
    outcome text not null,
    reason text,
    created_by text,

    constraint firings_happen_once primary key (tenant_id, trigger_id, fire_at),
    constraint firing_kinds_are_known check (kind in ('schedule', 'manual', 'backfill')),
    constraint firing_outcomes_are_known
        check (outcome in ('pending', 'enqueued', 'skipped', 'failed')),
    constraint only_enqueued_firings_have_a_job
        check ((outcome = 'enqueued') = (job_id is not null)),
    constraint firings_that_made_nothing_say_why
        check (outcome in ('pending', 'enqueued') or reason is not null)
);
create index firings_pending on jobforge.firings (tenant_id, trigger_id, fire_at)
    where outcome = 'pending';
create index firings_by_age on jobforge.firings (at);
create index firings_without_a_job on jobforge.firings (at)
    where outcome in ('skipped', 'failed');

-- Triggers that code declares for every tenant, including tenants that are created later.
create table jobforge.declared_triggers (
    name text not null,
    type text not null,
    declared_at timestamptz not null,
    settings jsonb not null,
    constraint declared_triggers_pkey primary key (name, type),
    constraint declared_types_are_known check (type in ('schedule', 'event'))
);


-- 9 Events ----------------------------------------------------------------------------------------

-- Events. Rows are never updated: the outbox has the events that are still to be dispatched. `key`
-- is the emitter's deduplication key: each trigger creates one job for all events with the same
-- name and key.
create table jobforge.events (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    name text not null,
    correlation_id text not null,
    key text,
    traceparent text,
    created_by text not null,
    data jsonb not null,
    constraint events_pkey primary key (tenant_id, id, created_at)
) partition by range (created_at);
-- Waits read earlier events through this index.
create index events_of_a_name on jobforge.events (tenant_id, name, id);
create table jobforge.events_default partition of jobforge.events default;

-- Events that are still to be dispatched, for the first time or in a replay (`replay` counts from
-- 1). The row is deleted when its event is dispatched, so the table is as small as the backlog. For
-- the first dispatch, `id` is the event's ID. `event_at` is the partition key of the event. A
-- scheduler reserves a row until `reserved_until`, and other schedulers skip it.
create table jobforge.outbox (
    tenant_id uuid not null,
    id uuid not null,
    event_id uuid not null,
    event_at timestamptz not null,
    reserved_until timestamptz,
    replay integer not null default 0,
    constraint outbox_pkey primary key (tenant_id, event_id, replay),
    constraint replays_count_from_one check (replay >= 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index outbox_in_order on jobforge.outbox (id);

-- The deliveries of events to triggers: the job, or the reason for which there is none. Partitioned
-- by the day of the event, so that a trigger acts once on each dispatch of an event, and both are
-- dropped together.
create table jobforge.event_deliveries (
    tenant_id uuid not null,
    id uuid not null,
    event_id uuid not null,
    trigger_id uuid not null,
    event_at timestamptz not null,
    at timestamptz not null,
    job_id uuid,
    replay integer not null,
    outcome text not null,
    reason text,
    constraint triggers_act_once_on_an_event
        primary key (tenant_id, event_id, trigger_id, replay, event_at),
    constraint delivery_outcomes_are_known
        check (outcome in ('enqueued', 'deduplicated', 'filtered', 'failed')),
    constraint deliveries_have_their_job
        check ((outcome in ('enqueued', 'deduplicated')) = (job_id is not null))
) partition by range (event_at);
create index event_deliveries_of_a_trigger on jobforge.event_deliveries (tenant_id, trigger_id, id);
-- Deliveries that created no job because another job covers the event, to count and list them.
create index event_deliveries_deduplicated on jobforge.event_deliveries (tenant_id, trigger_id, id)
    where outcome = 'deduplicated';
create table jobforge.event_deliveries_default partition of jobforge.event_deliveries default;


-- 10 Webhooks -------------------------------------------------------------------------------------

-- Webhook endpoints. The caller seals the secrets; during a rotation, both secrets sign.
-- `failing_since` is the time of the first failure since the last success.
create table jobforge.webhook_endpoints (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    disabled_at timestamptz,
    failing_since timestamptz,
    previous_secret_until timestamptz,
    enabled boolean not null default true,
    url text not null,
    description text,
    disabled_reason text,
    created_by text not null,
    secret bytea not null,
    previous_secret bytea,
    events text[] not null,
    definitions text[],

    constraint webhook_endpoints_pkey primary key (tenant_id, id),
    constraint webhook_endpoints_want_known_events
        check (cardinality(events) > 0
           and events <@ '{start,success,failure,dead,end}'::text[]),
    constraint disabled_webhook_endpoints_say_when_and_why
        check (enabled = (disabled_at is null) and enabled = (disabled_reason is null)),
    constraint previous_webhook_secrets_have_an_end
        check ((previous_secret is null) = (previous_secret_until is null))
);
-- Settles and claims ask whether a tenant has an endpoint; most have none.
create index webhook_endpoints_listening on jobforge.webhook_endpoints (tenant_id)
    where enabled;
create index webhook_endpoints_wanting_starts on jobforge.webhook_endpoints (tenant_id)
    where enabled and 'start' = any (events);

-- Messages to endpoints, with the last attempt to deliver each. `id` identifies the message to the
-- receiver, however often it is sent. `job_id` is the newest job that sends it. `subject_id` is the
-- job that the message describes, null for a test message.
create table jobforge.webhook_deliveries (
    tenant_id uuid not null,
    endpoint_id uuid not null,
    id uuid not null,
    job_id uuid,
    subject_id uuid,
    created_at timestamptz not null,
    attempted_at timestamptz,
    delivered_at timestamptz,
    attempts integer not null default 0,
    status integer,
    event text not null,
    error text,
    response text,
    message jsonb not null,
    constraint webhook_deliveries_pkey primary key (tenant_id, endpoint_id, id, created_at)
) partition by range (created_at);
create table jobforge.webhook_deliveries_default partition of jobforge.webhook_deliveries default;

-- A message to one endpoint, before it is stored.
create type jobforge.webhook_message as (
    tenant_id uuid,
    endpoint_id uuid,
    subject_id uuid,
    event text,
    correlation_id text,
    traceparent text,
    message jsonb
);


-- 11 Connectors -----------------------------------------------------------------------------------

-- Each tenant's key, which seals its secrets. The key is wrapped by the installation's key, which
-- the database never receives; `key_id` identifies the installation's key.
create table jobforge.tenant_keys (
    tenant_id uuid not null,
    created_at timestamptz not null,
    wrapped_at timestamptz not null,
    key_id text not null,
    wrapped bytea not null,
    constraint tenant_keys_pkey primary key (tenant_id),
    constraint wrapped_keys_are_whole check (octet_length(wrapped) = 60)
);

-- Configurations of connectors. `secrets` has a reference for each name, {"from": "env:NAME" |
-- "file:NAME"}, which a worker looks up, or a sealed value, {"sealed": base64}. It never has a
-- secret in plain text.
create table jobforge.connector_configs (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    connector text not null,
    name text not null,
    created_by text not null,
    updated_by text not null,
    settings jsonb not null,
    secrets jsonb not null,
    constraint connector_configs_pkey primary key (tenant_id, id),
    constraint connector_config_names_are_unique unique (tenant_id, name)
);


-- 12 Artifacts ------------------------------------------------------------------------------------

-- When the last sweep of unused artifacts started: one row, none before the first sweep.
create table jobforge.artifact_sweeps (
    is_only boolean not null default true,
    started_at timestamptz not null,
    constraint artifact_sweeps_pkey primary key (is_only),
    constraint there_is_one_sweep check (is_only)
);

-- The artifact store that each process uses. Each store has a random ID; null means no store.
create table jobforge.artifact_stores (
    store_id uuid,
    kind text not null,
    host text not null,
    location text not null,
    pid integer,
    seen_at timestamptz not null,
    constraint a_process_is_recorded_once unique nulls not distinct
        (kind, host, store_id, location),
    constraint kinds_of_store_users_are_known check (kind in ('app', 'server', 'worker'))
);
-- store_id may be null, so no key can be the replica identity.
alter table jobforge.artifact_stores replica identity full;


-- 13 API access -----------------------------------------------------------------------------------

-- API keys. The text of a key is shown once and not stored: `lookup` finds the row, and `hash` is
-- the SHA-256 of the whole text. Keys without a tenant belong to the installation.
create table jobforge.api_keys (
    id uuid not null,
    tenant_id uuid,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    rotated_from uuid,
    role text not null,
    lookup text not null,
    name text not null,
    created_by text not null,
    hash bytea not null,
    scopes text[] not null default '{}',

    constraint api_keys_pkey primary key (id),
    constraint api_key_lookups_are_unique unique (lookup),
    constraint api_key_roles_are_known
        check (role in ('viewer', 'tenant_admin', 'worker', 'super_admin')),
    constraint super_admin_keys_have_no_tenant
        check (role <> 'super_admin' or tenant_id is null),
    constraint keys_of_people_have_a_tenant
        check (role not in ('viewer', 'tenant_admin') or tenant_id is not null),
    constraint api_key_hashes_are_sha256 check (octet_length(hash) = 32)
) with (fillfactor = 70);
create index api_keys_of_a_tenant on jobforge.api_keys (tenant_id, id);

-- Responses to requests with an Idempotency-Key.
create table jobforge.idempotent_requests (
    tenant_id uuid not null,
    created_at timestamptz not null,
    key text not null,
    body_hash bytea not null,
    job_ids uuid[] not null default '{}',
    statuses text[] not null default '{}',
    constraint idempotent_requests_pkey primary key (tenant_id, key)
);
create index idempotent_requests_by_age on jobforge.idempotent_requests (created_at);

-- Token buckets of the HTTP server's request limits. Unlogged: after a crash, all buckets are full.
create unlogged table jobforge.request_rates (
    bucket text not null,
    tokens double precision not null,
    refilled_at timestamptz not null,
    is_allowed boolean not null,
    constraint request_rates_pkey primary key (bucket)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Dashboard sessions that were ended by signing out. Active sessions are not stored:
-- a session cookie is signed with a key that is derived from the API key's hash.
create table jobforge.ended_sessions (
    id bytea not null,
    expires_at timestamptz not null,
    constraint ended_sessions_pkey primary key (id),
    constraint session_ids_have_16_bytes check (octet_length(id) = 16)
);
create index ended_sessions_by_end on jobforge.ended_sessions (expires_at);


-- 14 Operations -----------------------------------------------------------------------------------

-- Bulk actions on all jobs that match a filter, in steps that any worker or server runs. `below` is
-- the position of the scan over the tenant's jobs, newest first. `tokens` is the number of further
-- jobs that the rate allowed at `stepped_at`. `canaries` are jobs that must succeed before the
-- others follow. The erasure of a tenant (kind `erase`) counts rows of all tables instead of jobs;
-- `progress` has its phase, its position, the rows erased from each table, and the transactions
-- that it waits for.
create table jobforge.operations (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    started_at timestamptz,
    stepped_at timestamptz,
    due_at timestamptz not null,
    finished_at timestamptz,
    below uuid not null default 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    matched bigint not null,
    done bigint not null default 0,
    skipped bigint not null default 0,
    tokens double precision not null default 1,
    kind text not null,
    state text not null default 'queued',
    reason text,
    created_by text not null,
    canaries uuid[],
    filter jsonb not null,
    options jsonb not null,
    progress jsonb,

    constraint operations_pkey primary key (tenant_id, id),
    constraint operation_kinds_are_known
        check (kind in ('cancel', 'retry', 'redrive', 'discard', 'erase')),
    constraint operation_states_are_known
        check (state in ('queued', 'running', 'waiting', 'done', 'failed', 'canceled')),
    constraint ended_operations_have_an_end
        check ((state in ('done', 'failed', 'canceled')) = (finished_at is not null)),
    constraint only_canaries_and_erasures_wait
        check (state <> 'waiting' or canaries is not null or kind = 'erase'),
    constraint erasures_have_a_phase
        check ((kind = 'erase') = (progress is not null)
           and (progress is null
                or progress ->> 'phase' in ('jobs', 'history', 'barrier', 'artifacts', 'proof')))
) with (fillfactor = 70);
create index operations_due on jobforge.operations (due_at) where finished_at is null;
create index operations_ended on jobforge.operations (finished_at) where finished_at is not null;

-- Notes of operators on groups of dead jobs with one fingerprint: a note, a time until which the
-- group is snoozed, and the build that fixed it. The groups themselves are read from the dead jobs.
create table jobforge.failure_notes (
    tenant_id uuid not null,
    updated_at timestamptz not null,
    snoozed_until timestamptz,
    fingerprint text not null,
    note text,
    resolved_in text,
    updated_by text not null,
    constraint failure_notes_pkey primary key (tenant_id, fingerprint)
);

-- The audit log: actions of operators and API callers. Entries without a tenant concern the
-- installation.
create table jobforge.audit_log (
    id uuid not null,
    tenant_id uuid,
    at timestamptz not null,
    actor text not null,
    action text not null,
    target text,
    detail jsonb,
    constraint audit_log_pkey primary key (id, at)
) partition by range (at);
create table jobforge.audit_log_default partition of jobforge.audit_log default;
create index audit_log_of_a_tenant on jobforge.audit_log (tenant_id, id);


-- 15 Statistics and the stream --------------------------------------------------------------------

-- Sums over the attempts of one tenant, definition and queue that ended in one minute. Each attempt
-- counts in one of five columns: `failed` will be retried, `dead` were the last attempts of dead
-- jobs, `released` were released or snoozed. The histograms use the buckets of
-- jobforge_private.duration_bounds(). All columns except `peak_memory_bytes` are sums, so late
-- attempts can be added to a row, and rows can be added together. `peak_memory_bytes` is a maximum.
create table jobforge.minute_statistics (
    tenant_id uuid not null,
    minute timestamptz not null,
    succeeded bigint not null,
    failed bigint not null,
    dead bigint not null,
    canceled bigint not null,
    released bigint not null,
    wait_ms bigint not null,
    run_ms bigint not null,
    cpu_ms bigint not null,
    peak_memory_bytes bigint,
    definition text not null,
    queue text not null,
    wait_histogram integer[] not null,
    run_histogram integer[] not null,
    constraint minute_statistics_pkey primary key (tenant_id, minute, definition, queue)
) partition by range (minute);
-- Operators read a few hours of all tenants.
create index minute_statistics_in_order on jobforge.minute_statistics (minute);
create table jobforge.minute_statistics_default partition of jobforge.minute_statistics default;

-- One row: attempts up to this transaction are in minute_statistics. After a restore into a cluster
-- with fewer transactions, rows up to `restored_until` are from the former cluster. Their
-- transaction IDs will be used again, so such rows are neither added nor streamed a second time.
create table jobforge.statistics_position (
    is_only boolean not null default true,
    txid xid8 not null,
    restored_until timestamptz not null default '-infinity',
    constraint statistics_position_pkey primary key (is_only),
    constraint there_is_one_position check (is_only)
);
insert into jobforge.statistics_position (txid) values ('0');

-- The last start of each maintenance task, and the process that started it. No other process has
-- started the task since `since`.
create table jobforge.maintenance (
    task text not null,
    started_at timestamptz not null,
    since timestamptz not null,
    started_by text not null,
    constraint maintenance_pkey primary key (task),
    constraint maintenance_tasks_are_known
        check (task in ('statistics', 'partitions', 'retention', 'blocked_jobs'))
);

-- A position in the stream. Without a kind, it is before all rows of the transaction, and `at` only
-- says how old the position is.
create type jobforge.stream_position as (
    txid xid8,
    at timestamptz,
    kind text,
    n bigint
);
