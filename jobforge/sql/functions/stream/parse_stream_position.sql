-- Returns the position in the stream that format_stream_position wrote as this text. Raises JF002
-- for any other text (reason `unknown`) and for positions before the kept history (reason
-- `expired`).
create or replace function jobforge_private.parse_stream_position(
    p_text text,
    p_is_kept boolean default true
) returns jobforge.stream_position
language plpgsql stable
as $$
declare
    v_parts text[] := regexp_match(p_text,
        '^(\d{1,19}):(\d{1,16})(?::(attempt|event):(-?\d{1,19}))?$');
    v_position jobforge.stream_position;
begin
    v_position.txid := v_parts[1]::xid8;
    v_position.at := 'epoch'::timestamptz + v_parts[2]::bigint * interval '1 microsecond';
    v_position.kind := v_parts[3];
    v_position.n := v_parts[4]::bigint;
    if v_position.txid is null or v_position.txid > pg_snapshot_xmax(pg_current_snapshot()) then
        perform jobforge_private.refuse('JF002', 'after is not a valid stream position',
            '{"field": "after", "reason": "unknown"}');
    elsif p_is_kept and v_position.at < jobforge_private.now() - interval '1 day'
          and (v_position.at at time zone 'UTC')::date < jobforge_private.first_history_day() then
        perform jobforge_private.refuse('JF002',
            'The events after this position are no longer stored',
            '{"field": "after", "reason": "expired"}');
    end if;
    return v_position;
exception
    when data_exception then
        perform jobforge_private.refuse('JF002', 'after is not a valid stream position',
            '{"field": "after", "reason": "unknown"}');
        return null;
end $$;
