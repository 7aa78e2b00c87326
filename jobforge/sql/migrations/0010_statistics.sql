-- What ended attempts add up to, by the minute, and who keeps house when. Rows are written by the
-- functions only.

-- All attempts of a tenant, a definition and a queue that ended in one minute. How they ended is
-- counted once each: `failed` are to be tried again, `died` were the last of their jobs,
-- `handed_back` were released or snoozed. The histograms count by
-- jobforge_private.duration_bounds(). Everything in a row adds up, so late attempts are added to
-- it, and many rows to one.
create table jobforge.minute_statistics (
    tenant_id uuid not null,
    minute timestamptz not null,
    succeeded bigint not null,
    failed bigint not null,
    died bigint not null,
    canceled bigint not null,
    handed_back bigint not null,
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
-- Operators ask for some hours of all tenants.
create index minute_statistics_in_order on jobforge.minute_statistics (minute);
create table jobforge.minute_statistics_default partition of jobforge.minute_statistics default;

-- Up to which transaction attempts have been added up: one row. After a restore into a cluster that
-- has used fewer transactions, rows up to `restored_until` are of the former cluster: their txids
-- will be used again, and such rows are neither added up nor streamed a second time.
create table jobforge.statistics_position (
    is_only boolean not null default true,
    txid xid8 not null,
    restored_until timestamptz not null default '-infinity',
    constraint statistics_position_pkey primary key (is_only),
    constraint there_is_one_position check (is_only)
);
insert into jobforge.statistics_position (txid) values ('0');

-- When each task of the upkeep was begun last, and by whom; nobody else has begun it after `since`.
create table jobforge.maintenance (
    task text not null,
    started_at timestamptz not null,
    since timestamptz not null,
    started_by text not null,
    constraint maintenance_pkey primary key (task),
    constraint maintenance_tasks_are_known
        check (task in ('statistics', 'partitions', 'retention', 'blocked_jobs'))
);
