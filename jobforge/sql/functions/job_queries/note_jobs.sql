-- Workers call this with the notes of their running jobs: progress, log lines and custom events, in
-- order. p_notes: objects {tenant_id, job_id, lease, kind, data}. Returns one row per lease, `ok`
-- or `lost`; notes of a lost lease are not stored. Data beyond 64 KiB, 256 KiB of text or 64 levels
-- keeps the start of its text. Takes no locks. Raises JF002.
create or replace function jobforge.note_jobs(p_worker_id uuid, p_notes jsonb)
returns table (job_id uuid, lease bigint, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge_private.now();
    v_tenant uuid := jobforge.tenant();
begin
    perform jobforge_private.check_bounded('notes', p_notes, null);
    perform jobforge_private.check_leases(p_worker_id, p_notes);
    if exists (select from jsonb_array_elements(p_notes) as n(note)
                where coalesce(n.note ->> 'kind', '') not in ('progress', 'log', 'event')) then
        perform jobforge_private.refuse('JF002', 'kind must be progress, log or event',
            '{"field": "kind"}');
    elsif exists (select from jsonb_array_elements(p_notes) as n(note)
                   where jsonb_typeof(n.note -> 'data') is distinct from 'object') then
        perform jobforge_private.refuse('JF002', 'data must be a JSON object',
            '{"field": "data"}');
    end if;
    return query
    with given as materialized (
        select n.* from rows from (jsonb_to_recordset(p_notes) as (
                   tenant_id uuid, job_id uuid, lease bigint, kind text, data jsonb))
               with ordinality as n(tenant_id, job_id, lease, kind, data, index)
    ), held as materialized (
        select t.tenant_id, t.job_id, t.lease, j.id is not null as is_held
          from (select distinct g.tenant_id, g.job_id, g.lease from given as g) as t
          left join jobforge.jobs as j
            on j.tenant_id = t.tenant_id and j.id = t.job_id and j.state || '' = 'running'
           and j.worker_id = p_worker_id and j.lease = t.lease
           and (v_tenant is null or j.tenant_id = v_tenant)
    ), noted as (
        insert into jobforge.job_events (tenant_id, job_id, at, kind, data)
        -- One microsecond apart, so that they are read in order.
        select g.tenant_id, g.job_id, v_now + make_interval(secs => g.index / 1e6), g.kind,
               case when not jobforge_private.is_bounded(g.data)
                    then '{"truncated": true}'
                    -- Plain data of 64 KiB has less text than that, and streams read many notes.
                    when not jobforge_private.is_bounded(g.data, 262144)
                      or pg_column_size(g.data) > 65536
                      or jsonb_path_exists(g.data, 'strict $.**{65 to last}')
                    then jsonb_build_object('truncated', true, 'text', left(g.data::text, 8000))
                    else g.data end || jsonb_build_object('lease', g.lease)
          from given as g
          join held as h on h.tenant_id = g.tenant_id and h.job_id = g.job_id
           and h.lease = g.lease and h.is_held
    )
    select h.job_id, h.lease, case when h.is_held then 'ok' else 'lost' end from held as h;
end $$;
