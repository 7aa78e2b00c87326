-- Runs the follow-up work of jobs and attempts that ended, in the same transaction: enqueues hooks,
-- deletes waits, releases dependent jobs and workflows, notifies webhook endpoints. Called once per
-- batch, with those of its jobs that need it: a job with flags 0, of a tenant without webhooks, is
-- left out. Jobs that only wait for their next attempt are included.
create or replace function jobforge_private.follow_up(p_ended jobforge.ended_job[]) returns void
language plpgsql
as $$
declare
    v_ended jobforge.ended_job;
    v_has_steps boolean := false;
    v_is_awaited boolean := false;
begin
    -- Jobs of a tenant that was erased in the meantime have no follow-up work.
    if exists (select from unnest(p_ended) as e
                 join jobforge.tenants as t on t.id = e.tenant_id
                where t.erased_at is not null) then
        p_ended := array(
            select e from unnest(p_ended) as e where not jobforge_private.is_erased(e.tenant_id));
    end if;
    foreach v_ended in array p_ended loop
        -- The hooks of a dead job were enqueued when it died.
        if v_ended.flags & 1 = 1 and v_ended.state in ('succeeded', 'canceled', 'dead')
           and v_ended.was <> 'dead' then
            perform jobforge_private.enqueue_hooks(v_ended);
        end if;
        v_has_steps := v_has_steps or v_ended.flags & 4 = 4;
        v_is_awaited := v_is_awaited or v_ended.flags & 2 = 2;
    end loop;
    if v_has_steps then
        delete from jobforge.waits as w
         using unnest(p_ended) as e
         where e.flags & 4 = 4 and e.state in ('succeeded', 'canceled', 'dead')
           and w.tenant_id = e.tenant_id and w.job_id = e.id;
    end if;
    if v_is_awaited then
        perform jobforge_private.release_dependents(p_ended);
    end if;
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        perform jobforge_private.notify_endpoints(p_ended);
    end if;
end $$;
