-- The tables of the engine. Rows are written by the functions of schema jobforge only.

-- Jobs that can still change. Fixed-width columns come first (no padding), text after them. What a
-- claim writes stands together, from `lease` to `state`: when a new version of a row lies beside
-- the old one, the WAL has only what is between the first difference and the last. Jobs that
-- succeeded or were canceled move to finished_jobs, so this table holds the backlog and what runs,
-- however long the history is. A job has `allowance` attempts; a dead one that is revived gets as
-- many again on top of max_attempts, so that attempt numbers go on. `flags` has facts of this job
-- that others need not look up: 1, its definition has hooks; 8, it was erased (erase_job).
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

    -- Versions of a row are no duplicates worth looking for (deduplicate_items): they go soon.
    constraint jobs_pkey primary key (tenant_id, id) with (deduplicate_items = off),
    -- Postgres parses the text of each rule for every statement that writes jobs, so the rules are
    -- short: an array constant, for example, is half as long as a list.
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
    -- A claim rewrites the row in a new version, a little longer. Room on the page for all of them
    -- keeps it beside the old one.
    fillfactor = 45,
    -- A queue turns over completely every few seconds: vacuum by a fixed count of dead rows,
    -- not by a share of a table whose size says nothing, and without pauses.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 10000
);

-- What a claim walks: exactly the runnable jobs, in exactly the order in which they are taken. The
-- priority is negated so that all columns ascend: a walk can then start at any row by comparing
-- the whole key.
create index jobs_ready on jobforge.jobs (queue, tenant_id, (- priority::integer), run_at, id)
    where state = 'queued' and gate is null;
-- The same for jobs under a cap, a rate limit or a pause, by group: a full group in front
-- costs the others nothing.
create index jobs_gated on jobforge.jobs (queue, tenant_id, gate, (- priority::integer), run_at, id)
    where state = 'queued' and gate is not null;
create index jobs_due on jobforge.jobs (run_at)
    where state = 'scheduled';
create index jobs_leased on jobforge.jobs (lease_expires_at) with (deduplicate_items = off)
    where state = 'running';
-- Who holds the slots of a cap. Only jobs under a limit are in these three.
create index jobs_held_by_tenant on jobforge.jobs (tenant_id, definition, limit_key)
    where state = 'running' and gate is not null;
create index jobs_held_by_definition on jobforge.jobs (definition)
    where state = 'running' and gate is not null;
create index jobs_held_by_queue on jobforge.jobs (queue)
    where state = 'running' and gate is not null;
-- Dead jobs, all and by what they died of. The conditions mean the same and differ in words, so
-- that a query says which of the two it wants.
create index jobs_dead on jobforge.jobs (tenant_id, id)
    where finished_at is not null;
create index jobs_dead_alike on jobforge.jobs (tenant_id, fingerprint, id)
    where state = 'dead';
create index jobs_expiring on jobforge.jobs (expires_at)
    where expires_at is not null and started_at is null;
-- Jobs that wait for other jobs: maintenance looks whether they still do (free_blocked_jobs).
create index jobs_blocked on jobforge.jobs (tenant_id, id)
    where state = 'blocked';

-- Jobs that succeeded or were canceled. Never updated; retention drops whole days. Where `txid` is
-- set, the row tells the job's last attempt as well: one that succeeded, and of which nothing is
-- known that the row does not have. As good as all jobs end so, and each is written once, without
-- what it has from the column before: `run_at` as created, `queued_at` as due, `allowance` as
-- max_attempts. The views have them.
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

-- The leases that ended, written when they ended: how, and where the job went. Those that the row
-- of a finished job tells are not here; all_attempts has them all.
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

-- What cannot be derived from jobs and attempts: progress marks, custom events, operator actions.
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
-- Two entries of a job may be equal, so there is no key. Entries are only inserted and deleted, and
-- only a delete writes its whole row to the WAL. New partitions inherit it from build_partition.
alter table jobforge.job_events replica identity full;
alter table jobforge.job_events_default replica identity full;

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

-- What code registered, what operators set over it, and the settings that result: the columns
-- below the two documents are the effective values, and the only ones the engine reads.
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

-- What every claim asks of all definitions, however many there are: those under limits, and whether
-- all have the same timeout.
create index definitions_limited on jobforge.definitions (key)
    where max_running is not null or rate_limit is not null or paused_at is not null;
create index definitions_limited_per_key on jobforge.definitions (key)
    where max_running_per_key is not null or rate_limit_per_key is not null;
create index definitions_by_timeout on jobforge.definitions (timeout_s);

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
    -- The mark of an erased tenant (see delete_tenant). Its row stays, with the id and this alone,
    -- so that nothing is ever stored for that id again.
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

-- Most tenants have neither: a claim asks these whether it must look at tenants at all. The caps
-- are in the index so that a claim that counts many full tenants reads them in order.
create index tenants_weighted on jobforge.tenants (id) where weight <> 1;
create index tenants_limited on jobforge.tenants (id, max_running)
    where max_running is not null or rate_limit is not null or paused_at is not null;

-- Logins that may act for these tenants only (see jobforge.tenant). A login without a row is not
-- confined: the setting app.tenant_id alone decides. An empty array allows no tenant: the erasure
-- of a tenant removes it from the array and keeps the row, or the login would no longer be
-- confined. By name, not oid, so that a dump can be restored into another cluster.
create table jobforge.bound_logins (
    login name not null,
    tenants uuid[] not null,
    bound_at timestamptz not null,
    bound_by text not null,
    constraint bound_logins_pkey primary key (login),
    constraint bound_logins_have_few_tenants
        check (cardinality(tenants) <= 1000 and array_position(tenants, null) is null)
);

-- Queues exist by being named; a row is there only for a queue that was paused or limited.
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

-- `memory_bytes` and `clock_skew_s` (its clock less ours) are of the last heartbeat. `isolation` is
-- the level at which its jobs are isolated, null where they are not.
create table jobforge.workers (
    id uuid not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
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
    -- Tells a claim whether the list is the one that its session compared last.
    definitions_hash bigint,
    constraint workers_pkey primary key (id),
    constraint worker_commands_are_known check (command in ('drain', 'stop'))
);

-- The last heartbeat of each job that runs for long enough to send one. Heartbeats are written
-- here and never to jobs, so a transaction that holds the row of a job does not stop its
-- heartbeats. A lease ends at the later of `expires_at` here and `lease_expires_at` there. No
-- column that a heartbeat writes is indexed, so each one is a heap-only update. `beat_at` is null
-- in a row that the reaper inserted to lock out a first heartbeat. Retention deletes the rows of
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

-- When a worker last called reap_jobs, and the last time that none did for more than five seconds,
-- which is taken as an outage. Workers that serve all tenants share the row of the nil UUID. Those
-- that serve one tenant have a row for it, so that no tenant can hide an outage from the others.
create table jobforge.reaper (
    tenant_id uuid not null,
    reaped_at timestamptz,
    outage_from timestamptz,
    outage_until timestamptz,
    constraint reaper_pkey primary key (tenant_id),
    constraint an_outage_has_both_ends check ((outage_from is null) = (outage_until is null))
) with (fillfactor = 10);
insert into jobforge.reaper (tenant_id) values ('00000000-0000-0000-0000-000000000000');

-- Token buckets. A row appears with the first claim under its limit.
create table jobforge.rate_limits (
    bucket text not null,
    tokens double precision not null,
    refilled_at timestamptz not null,
    constraint rate_limits_pkey primary key (bucket)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Rows that stand for locks: only the engine can lock a row here, while every login of a database
-- can take any advisory lock. They are locked and never changed. Those of the installation are
-- under the nil UUID; the limits of claims share 4,096 of them. A row that is missing is inserted
-- when it is needed (hold_lock, try_lock).
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

-- The key with which the engine signs what it keeps in settings of a session, which every login can
-- change (see sign). Each database has a random one.
create table jobforge.signing_key (
    is_only boolean not null default true,
    value bytea not null,
    constraint signing_key_pkey primary key (is_only),
    constraint there_is_one_signing_key check (is_only),
    constraint signing_keys_are_long check (octet_length(value) = 32)
);
insert into jobforge.signing_key (value)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

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

-- Every job, live or finished, for reading. Obeys the caller's row-level security.
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

-- One row for every lease that ended, for reading. Obeys the caller's row-level security.
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
 -- Not "is not null": that would invite the planner to the index that has all of them. Whoever
 -- compares txid gets it nevertheless.
 where coalesce(f.txid > '0', false);

-- One limit of a group of jobs, as jobforge_private.limits_of returns it.
create type jobforge.group_limit as (
    kind text,
    subject text,
    max_running integer,
    rate_limit integer,
    rate_period_s double precision,
    rate_burst integer,
    changed_at timestamptz
);

-- A tenant's turn in a claim: where its ready jobs begin, how many it may have, and the row of the
-- first one if it was seen just now.
create type jobforge.turn as (
    tenant_id uuid,
    rank integer,
    run_at timestamptz,
    id uuid,
    quota integer,
    row_id tid
);

-- Where the ready jobs of a queue's tenants begin, by tenant, as a session remembers it. Arrays and
-- not rows, and times as seconds: they are read from text and written to it by every claim.
create type jobforge.places as (
    tenants uuid[],
    ranks integer[],
    run_ats double precision[],
    ids uuid[]
);

-- Ready jobs as one round of a claim found them: rows to take, how many others it mended, the
-- places of all that it met if they are to be remembered, and whether the first of the first
-- tenant is among those to take.
create type jobforge.ready_jobs as (
    picked tid[],
    mended bigint,
    reached jobforge.turn[],
    has_front boolean
);

-- A definition as one enqueue names it, and what its jobs take from it.
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

-- What is under limits or paused, as one claim found it: definitions, definitions with limits per
-- key, tenants (whether any is), and the queue at hand. Whether any tenant has a weight. And which
-- of the definitions have no free slot or token, counted once in a round.
create type jobforge.limited as (
    definitions text[],
    definitions_by_key text[],
    tenants boolean,
    queue boolean,
    weighted boolean,
    full_definitions text[]
);

-- A group of jobs under the same limits as a claim finds it in a queue: its gate, and where its
-- best job is.
create type jobforge.open_group as (
    gate text,
    definition text,
    rank integer,
    run_at timestamptz,
    id uuid
);

-- A job whose lease ended, or that was canceled without one, as follow_up hears of it: where it was
-- and where it went, how the attempt ended (null where there was none), and what others need.
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

-- Jobs that a settle ended, and where they went, as arrays side by side.
create type jobforge.settled_jobs as (
    tenants uuid[],
    jobs uuid[],
    leases bigint[],
    states text[]
);

-- What a list or a bulk action asks for; null asks for nothing.
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
