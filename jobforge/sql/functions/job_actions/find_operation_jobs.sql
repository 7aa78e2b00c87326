-- What an operation finds in the next p_window rows of a tenant's jobs below an id, newest first:
-- the first p_limit of those that match, and where to go on; null there when there are no more.
-- An operation acts on jobs of certain states only:
--   cancel   scheduled, blocked, queued, running and not asked to stop yet
--   retry    dead, and scheduled after an attempt that failed
--   redrive  dead                discard  dead
-- Reads rows in order of id and no more than the window, so that each step has a bound, however
-- rare a match is. Takes no locks. Called by count_jobs and step_operation.
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
    -- Dead jobs have an index of their own: live ones are not walked over.
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
