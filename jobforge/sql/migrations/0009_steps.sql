-- Durable steps: what running jobs have stored of themselves, and what they wait for meanwhile.

-- What a job need not do again. A row is written once, under the lease of the attempt that did it,
-- and read by every later attempt. An event without a result is one that did not come in time. Rows
-- stay as long as their job can run again, and then as long as its history does.
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

-- A job that waits in the middle of its work: for a time, an event or other jobs. It holds no slot.
-- The transaction that deletes the row decides how the wait ended, so it ends once. An event that
-- was emitted before the wait was registered counts as well: until a scheduler has looked for it,
-- `look_back_to` is the time from which on events count.
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
