-- Returns a position in the stream as text; parse_stream_position reads it. Without a kind, the
-- position is before all rows of the transaction. p_n distinguishes rows of one moment and
-- identifies none of them, because a tenant may receive the position of another tenant's row.
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
