-- Servers call this for the live stream of their clients: returns attempts that ended, and events
-- of jobs and operations (without log lines), of all tenants or of one. Rows come in the order of
-- transactions, and only those older than every open transaction, so that no row can appear before
-- a position later, however late it is committed. p_after is a position that was returned before;
-- null returns only the current position. Reads at most p_limit rows, of any tenant. The last row,
-- of kind `mark`, has the position up to which everything was read, and whether that is all.
-- `state` is the state that the job went to. Takes no locks. Raises JF002, JF006.
create or replace function jobforge.read_stream(
    p_after text default null,
    p_limit integer default 1000,
    p_tenant_id uuid default null
) returns table (
    place text, tenant_id uuid, kind text, name text, job_id uuid, definition text, queue text,
    state text, attempt integer, at timestamptz, actor text, data jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := (jobforge_private.claimable_tenants(
        case when p_tenant_id is not null then array[p_tenant_id] end))[1];
    v_end xid8 := pg_snapshot_xmin(pg_current_snapshot());
    v_after jobforge.stream_position := jobforge_private.parse_stream_position(
        coalesce(p_after, v_end::text || ':0'), p_after is not null);
    v_upto xid8;
begin
    perform jobforge_private.check_limit(p_limit, 10000);
    v_upto := jobforge_private.stream_read_limit(v_after.txid, v_end, p_limit);
    return query
    with happened as materialized (
        select row_number() over () as rank, u.*
          from jobforge_private.stream_rows(v_after, v_upto, p_limit) as u
    ), told as (
        select h.rank, jobforge_private.format_stream_position(h.txid, h.at, h.kind, h.n) as place,
               h.tenant_id, h.kind, h.name, h.job_id,
               coalesce(h.definition, j.definition) as definition,
               coalesce(h.queue, j.queue) as queue,
               h.state, h.attempt, h.at, h.actor, h.data
          from happened as h
          left join lateral (
               select a.definition, a.queue from jobforge.all_jobs as a
                where h.kind = 'event' and a.tenant_id = h.tenant_id and a.id = h.job_id
                limit 1) as j on true
         where v_tenant is null or h.tenant_id = v_tenant
        union all
        select null,
               case when l.n < p_limit
                    then jobforge_private.format_stream_position(
                             v_upto, case when v_upto = v_end then jobforge_private.now()
                                          else coalesce(l.at, v_after.at) end)
                    else (select jobforge_private.format_stream_position(
                                     f.txid, f.at, f.kind, f.n)
                            from happened as f where f.rank = l.n) end,
               null, 'mark', null, null, null, null, null, null, null, null,
               jsonb_build_object('is_complete', v_upto = v_end and l.n < p_limit)
          from (select count(*) as n, max(f.at) as at from happened as f) as l
    )
    select t.place, t.tenant_id, t.kind, t.name, t.job_id, t.definition, t.queue, t.state,
           t.attempt, t.at, t.actor, t.data
      from told as t
     order by t.rank nulls last;
end $$;
