-- What starts jobs besides people: triggers by time and by event, and what came of each firing.
-- Rows are written by the functions only.

-- One trigger of a tenant. A schedule counts from `since`: when it was made, enabled, or given
-- another time. `due_at` is when the scheduler looks at it next: at once while it has to be
-- planned, then at next_run_at, never when it is disabled or over. `declared` is its name in code.
-- `fault` is why the scheduler had to disable it.
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
create unique index triggers_declared on jobforge.triggers (tenant_id, declared)
    where declared is not null;
create index triggers_deleted on jobforge.triggers (deleted_at) where deleted_at is not null;

-- Each time that a schedule was to fire: what came of it, or why nothing did. A row that is still
-- `pending` was asked for by hand, and the scheduler has not come to it.
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

-- Schedules that code declares for every tenant, those too that come later.
create table jobforge.declared_schedules (
    name text not null,
    declared_at timestamptz not null,
    settings jsonb not null,
    constraint declared_schedules_pkey primary key (name)
);

-- Which jobs of a schedule are not finished. Other jobs pay nothing for it.
create index jobs_of_a_schedule on jobforge.jobs (tenant_id, source_ref)
    where source = 'schedule';
