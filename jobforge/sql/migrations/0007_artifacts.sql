-- Files beside the database. What they are is the callers' business: the engine knows which jobs
-- name one, so that those nobody names can be swept away.

-- Few jobs have one, and the others are in neither index. In the order of bytes, because a folder
-- of files is asked for by its beginning.
create index jobs_with_artifacts on jobforge.jobs (tenant_id, artifact_ref collate "C")
    where artifact_ref is not null;
create index finished_jobs_with_artifacts
    on jobforge.finished_jobs (tenant_id, artifact_ref collate "C")
    where artifact_ref is not null;

-- When the last sweep began: one row, or none before the first.
create table jobforge.artifact_sweeps (
    is_only boolean not null default true,
    started_at timestamptz not null,
    constraint artifact_sweeps_pkey primary key (is_only),
    constraint there_is_one_sweep check (is_only)
);

-- Which process uses which store. Each store has a random id of its own; null: no store.
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
-- A store_id may be null, so no key can be the identity.
alter table jobforge.artifact_stores replica identity full;
