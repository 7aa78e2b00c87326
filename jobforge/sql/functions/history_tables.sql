-- The tables that are partitioned by day, and by which column.
create or replace function jobforge.history_tables() returns table (name text, by_column text)
language sql immutable
as $$
    values ('finished_jobs', 'finished_at'), ('attempts', 'ended_at'), ('job_events', 'at'),
           ('events', 'created_at'), ('event_deliveries', 'event_at'),
           ('webhook_deliveries', 'created_at'), ('minute_statistics', 'minute')
$$;
