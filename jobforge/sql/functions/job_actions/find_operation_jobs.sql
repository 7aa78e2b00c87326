-- Returns the jobs that an operation acts on among the next p_window rows of a tenant's jobs below
-- an ID, newest first: the IDs of the first p_limit that match, and the position at which to
-- continue (null at the end). An operation acts only on jobs in certain states:
--   cancel   scheduled, blocked, queued, or running without a requested cancel
--   retry    dead, or scheduled after an attempt that failed
--   redrive  dead                discard  dead
-- Reads rows in order of ID and no more than the window, so the cost of each step is bounded
-- however rare a match is. Takes no locks. Called by count_jobs and step_operation.
create or replace function jobforge_private.find_operation_jobs(
    p_tenant_id uuid,
    p_kind text,
    p_filter jsonb,
    p_below uuid,
    p_limit integer,
    p_window integer,
    out ids uuid[],
    out below uuid
)
language plpgsql stable
as $$
declare
    f jobforge.job_filter := jobforge_private.read_filter(p_filter);
    v_only_dead boolean := p_kind in ('redrive', 'discard') or f.states = '{dead}';
begin
    -- Dead jobs have a separate index, so live ones are not scanned.
    if v_only_dead then
        ids := array(
            select w.id
              from (select j.id, jobforge_private.matches_operation(j, p_kind, f) as is_wanted
                      from jobforge.jobs as j
                     where j.tenant_id = p_tenant_id and j.id < p_below
                       and j.finished_at is not null
                     order by j.id desc
                     limit p_window) as w
             where w.is_wanted
             order by w.id desc
             limit p_limit);
    else
        ids := array(
            select w.id
              from (select j.id, jobforge_private.matches_operation(j, p_kind, f) as is_wanted
                      from jobforge.jobs as j
                     where j.tenant_id = p_tenant_id and j.id < p_below
                     order by j.id desc
                     limit p_window) as w
             where w.is_wanted
             order by w.id desc
             limit p_limit);
    end if;
    if cardinality(ids) = p_limit then
        below := ids[p_limit];
    elsif v_only_dead then
        below := (select j.id from jobforge.jobs as j
                   where j.tenant_id = p_tenant_id and j.finished_at is not null and j.id < p_below
                   order by j.id desc
                  offset p_window - 1 limit 1);
    else
        below := (select j.id from jobforge.jobs as j
                   where j.tenant_id = p_tenant_id and j.id < p_below
                   order by j.id desc
                  offset p_window - 1 limit 1);
    end if;
end $$;
