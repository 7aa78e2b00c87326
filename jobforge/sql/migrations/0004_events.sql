-- Events: what applications say has happened, what is still to be made of it, and what came of it.
-- Rows are written by the functions only.

-- Never updated: what an event has yet to cause stands in the outbox. `key` is the emitter's own
-- name for what happened: each trigger makes one job of all events of a name and key.
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
-- For waits that look back.
create index events_of_a_name on jobforge.events (tenant_id, name, id);
create table jobforge.events_default partition of jobforge.events default;

-- Events that no scheduler has been at yet, and those to be gone over once more (`replay` counts
-- from 1). A row goes when its event is dispatched, so the table stays as small as the backlog. The
-- first time over, `id` is the event's own; `event_at` leads to the event's partition. Until
-- `reserved_until` a scheduler is at it, and others need not be.
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

-- What an event caused by a trigger, or why it caused nothing. In the partition of the event's day,
-- so that no trigger can act twice on one going over of an event, and both are dropped together.
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
-- To count and list what a trigger left out because another job covers it.
create index event_deliveries_deduplicated on jobforge.event_deliveries (tenant_id, trigger_id, id)
    where outcome = 'deduplicated';
create table jobforge.event_deliveries_default partition of jobforge.event_deliveries default;
