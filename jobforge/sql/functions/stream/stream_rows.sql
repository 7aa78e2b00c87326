-- Returns the rows of read_stream in order: up to p_limit ended attempts and events after a
-- position, of transactions before p_upto. Leaves out rows that were restored from another cluster
-- (statistics_position), because their transaction IDs are not of this one. Of data beyond 8 KiB,
-- only the start of its text.
create or replace function jobforge_private.stream_rows(
    p_after jobforge.stream_position,
    p_upto xid8,
    p_limit integer
) returns table (
    txid xid8, at timestamptz, kind text, n bigint, tenant_id uuid, job_id uuid, state text,
    name text, definition text, queue text, attempt integer, actor text, data jsonb
)
language plpgsql stable
as $$
#variable_conflict use_column
declare
    v_since timestamptz := (select p.restored_until from jobforge.statistics_position as p);
begin
    return query
    select u.*
      from (select h.txid, h.ended_at as at, 'attempt' as kind,
                   uuid_hash_extended(h.job_id, h.lease) as n, h.tenant_id, h.job_id, h.state,
                   h.outcome, h.definition, h.queue, h.attempt, null as actor,
                   jsonb_strip_nulls(jsonb_build_object(
                       'version', h.version, 'worker_id', h.worker_id, 'queued_at', h.queued_at,
                       'started_at', h.started_at, 'exit_code', h.exit_code,
                       'fingerprint', h.fingerprint, 'error', case when h.error is not null
                           then jsonb_build_object(
                               'type', left(h.error ->> 'type', 200),
                               'message', left(h.error ->> 'message', 1000)) end))
              from jobforge.all_attempts as h
             where h.txid >= p_after.txid and h.txid < p_upto and h.ended_at > v_since
            union all
            -- Two equal events have the same position; no client can distinguish them.
            select e.txid, e.at, 'event', uuid_hash_extended(e.job_id,
                       hashtextextended(concat(e.kind, '/', e.actor, '/', e.text), 0)),
                   e.tenant_id, e.job_id, null, e.kind, null, null, null, e.actor,
                   case when length(e.text) > 8192
                        then jsonb_build_object('truncated', true, 'text', left(e.text, 1000))
                        else e.text::jsonb end
              from (select n.txid, n.at, n.job_id, n.kind, n.actor, n.tenant_id,
                           jobforge_private.readable(n.data)::text as text
                      from jobforge.job_events as n
                     where n.txid >= p_after.txid and n.txid < p_upto and n.kind <> 'log'
                       and n.at > v_since
                    offset 0) as e) as u  -- so that the text is built once
     where p_after.kind is null
        or (u.txid, u.at, u.kind, u.n) > (p_after.txid, p_after.at, p_after.kind, p_after.n)
     order by u.txid, u.at, u.kind, u.n
     limit p_limit;
end $$;
