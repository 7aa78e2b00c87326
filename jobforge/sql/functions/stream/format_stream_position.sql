-- A position in the stream as text; parse_stream_position reads it again. Without a kind: before
-- everything of that transaction. p_n tells rows of one moment apart, and names none of them: a
-- tenant may be told the position of another's.
create or replace function jobforge_private.format_stream_position(
    p_txid xid8,
    p_at timestamptz,
    p_kind text default null,
    p_n bigint default null
) returns text
language sql stable
as $$
    select concat_ws(':', p_txid, (extract(epoch from p_at) * 1000000)::bigint, p_kind, p_n)
$$;
