-- Proves tenant isolation on this database with psql and leaves no rows:
--   jobforge db sql --rls-test | psql "$JOBFORGE_DATABASE_URL" -v ON_ERROR_STOP=1
-- Run it as the user that migrated (a member of jobforge_owner).
begin;
grant jobforge_client, jobforge_worker to current_user;

select jobforge.put_definition('rls.test', 1);
select set_config('app.tenant_id', 'aaaaaaaa-0000-4000-8000-000000000000', true);
select status from jobforge.enqueue_job('rls.test', '{"of": "a"}');
select set_config('app.tenant_id', 'bbbbbbbb-0000-4000-8000-000000000000', true);
select status from jobforge.enqueue_job('rls.test', '{"of": "b"}');

set local role jobforge_client;
do $$
declare
    v_count bigint;
    v_foreign uuid;
begin
    select count(*) into v_count from jobforge.all_jobs;
    if v_count <> 1 then
        raise exception 'Tenant b sees % jobs instead of 1', v_count;
    end if;
    perform set_config('app.tenant_id', '', true);
    select count(*) into v_count from jobforge.all_jobs;
    if v_count <> 0 then
        raise exception '% jobs are visible without a tenant', v_count;
    end if;
    begin
        perform jobforge.list_jobs();
        raise exception 'list_jobs succeeded without a tenant';
    exception
        when sqlstate 'JF001' then null;
    end;
    perform set_config('app.tenant_id', 'aaaaaaaa-0000-4000-8000-000000000000', true);
    select id into v_foreign from jobforge.all_jobs;
    perform set_config('app.tenant_id', 'bbbbbbbb-0000-4000-8000-000000000000', true);
    begin
        perform jobforge.cancel_job(v_foreign);
        raise exception 'Tenant b canceled a job of tenant a';
    exception
        when sqlstate 'JF004' then null;
    end;
    begin
        perform jobforge.get_job(v_foreign, 'aaaaaaaa-0000-4000-8000-000000000000');
        raise exception 'Tenant b read a job of tenant a';
    exception
        when sqlstate 'JF006' then null;
    end;
    begin
        update jobforge.jobs set priority = 1;
        raise exception 'A client wrote to the table';
    exception
        when insufficient_privilege then null;
    end;
end $$;
reset role;
rollback;
\echo tenant isolation holds
