-- The tables of the control plane: who may call the server, what operators do to many jobs at
-- once, and what is remembered of requests. Rows are written by the functions only.

-- Keys to the HTTP API. The text of a key is shown once and kept nowhere: `lookup` finds the row,
-- `hash` is the SHA-256 of the whole text. Those without a tenant belong to the installation.
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

-- What people know of the jobs that died alike: a note, when to speak of it again, and the build
-- that mended it. The groups themselves are read from the dead jobs.
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

-- An action on all jobs that match a filter, done in steps by any worker or server. `below` is how
-- far the walk over the tenant's jobs has come, newest first; `tokens` are what a rate has left to
-- release at `stepped_at`; `canaries` are the jobs that have to end well before others follow. The
-- erasure of a tenant (kind `erase`) counts rows of all tables instead of jobs; `progress` holds
-- its phase, its place, the rows erased from each table, and the transactions that it waits for.
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

-- What was answered to a request that carried an Idempotency-Key.
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

-- Token buckets of the server's requests. Unlogged: what a crash forgets is refilled anyway.
create unlogged table jobforge.request_rates (
    bucket text not null,
    tokens double precision not null,
    refilled_at timestamptz not null,
    is_allowed boolean not null,
    constraint request_rates_pkey primary key (bucket)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Sessions of the dashboard that were ended by signing out. A session itself has no row: its cookie
-- is sealed by the key's hash.
create table jobforge.ended_sessions (
    id bytea not null,
    expires_at timestamptz not null,
    constraint ended_sessions_pkey primary key (id),
    constraint session_ids_have_16_bytes check (octet_length(id) = 16)
);
create index ended_sessions_by_end on jobforge.ended_sessions (expires_at);

-- The stream reads the history in the order of transactions. Appending to the right end of an
-- index of equal numbers is the cheapest that an index can be, and every attempt pays for it; so
-- it has no tenant in it, and a tenant that catches up steps over the others' rows. Log lines are
-- no part of the stream, and pay nothing.
create index attempts_in_order on jobforge.attempts (txid);
create index finished_jobs_in_order on jobforge.finished_jobs (txid) where txid is not null;
create index job_events_in_order on jobforge.job_events (txid) where kind <> 'log';

-- A place in the stream. Without a kind: before everything of that transaction; `at` then only
-- tells how old the place is.
create type jobforge.stream_position as (
    txid xid8,
    at timestamptz,
    kind text,
    n bigint
);

-- A worker that works for one tenant has it here, and `owner` is who registered it.
alter table jobforge.workers
    add column tenant_id uuid,
    add column owner text;
