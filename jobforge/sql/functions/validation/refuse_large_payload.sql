-- Refuses a payload that is too large for a row, with its place in the batch: JF007. Called by
-- check_payloads, check_job and check_jobs.
create or replace function jobforge_private.refuse_large_payload(p_index integer) returns void
language plpgsql
as $$
begin
    perform jobforge_private.refuse('JF007', 'a payload is larger than 256 KiB',
        jsonb_build_object('field', 'payload', 'index', p_index, 'limit', 262144),
        'Store the data elsewhere and enqueue a reference to it. The Python API and the HTTP API '
        'store large payloads in an artifact store; a TypeScript handler cannot read those.');
end $$;
