-- Checks the canaries of a redrive: a canary that died again fails the operation, an unfinished one
-- keeps it waiting, and otherwise it continues. Returns the operation in its new state. Called by
-- step_operation.
create or replace function jobforge_private.check_canaries(o jobforge.operations)
returns jobforge.operations
language plpgsql
as $$
declare
    v_dead uuid;
    v_is_live boolean;
begin
    select (array_agg(j.id) filter (where j.state = 'dead'))[1], count(*) > 0
      into v_dead, v_is_live
      from unnest(o.canaries) as c(id)
     cross join lateral (
        select q.id, q.state from jobforge.jobs as q
         where q.tenant_id = o.tenant_id and q.id = c.id) as j;
    if v_dead is not null then
        o.state := 'failed';
        o.reason := format('canary job %s failed again', v_dead);
    elsif v_is_live then
        o.due_at := jobforge_private.now() + interval '1 second';
    else
        o.state := 'running';
    end if;
    return o;
end $$;
