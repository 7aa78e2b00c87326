-- Returns how far read_stream reads at once: to the end of the transaction with the p_limit-th row,
-- or to p_end. Rows beyond are not even sorted.
create or replace function jobforge_private.stream_read_limit(
    p_from xid8,
    p_end xid8,
    p_limit integer
) returns xid8
language plpgsql stable
as $$
declare
    v_attempts xid8 := (select h.txid from jobforge.all_attempts as h
                         where h.txid >= p_from and h.txid < p_end
                         order by h.txid offset p_limit - 1 limit 1);
    v_events xid8 := (select e.txid from jobforge.job_events as e
                       where e.txid >= p_from and e.txid < p_end and e.kind <> 'log'
                       order by e.txid offset p_limit - 1 limit 1);
    v_full xid8 := least(v_attempts, v_events);
begin
    return coalesce((v_full::text::numeric + 1)::text::xid8, p_end);
end $$;
