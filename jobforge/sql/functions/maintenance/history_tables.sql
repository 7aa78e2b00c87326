-- Returns the partitioned tables, the partition key of each, and the length of its partitions:
-- 'day' or 'month'. The audit log is kept for a year, and a page of it merges all partitions in
-- order of ID, so it has few.
create or replace function jobforge_private.history_tables()
returns table (name text, by_column text, span text)
language sql immutable
as $$
    values ('finished_jobs', 'finished_at', 'day'), ('attempts', 'ended_at', 'day'),
           ('job_events', 'at', 'day'), ('events', 'created_at', 'day'),
           ('event_deliveries', 'event_at', 'day'), ('webhook_deliveries', 'created_at', 'day'),
           ('minute_statistics', 'minute', 'day'), ('audit_log', 'at', 'month')
$$;
