-- What the end of attempts and of jobs brings about, in the transaction that ends them. Called once
-- for a batch, with those of its jobs that somebody waits for: a job whose flags are 0, of a tenant
-- without webhooks, costs nothing here. Jobs that only wait for their next attempt are among them.
create or replace function jobforge.follow_up(p_ended jobforge.ended_job[]) returns void
language plpgsql
as $$
declare
    v_ended jobforge.ended_job;
begin
    foreach v_ended in array p_ended loop
        -- A dead job had its hooks when it died.
        if v_ended.flags & 1 = 1 and v_ended.state in ('succeeded', 'canceled', 'dead')
           and v_ended.was <> 'dead' then
            perform jobforge.enqueue_hooks(v_ended);
        end if;
    end loop;
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        perform jobforge.notify_endpoints(p_ended);
    end if;
end $$;
