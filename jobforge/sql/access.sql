-- Who may do what. Applied last by every migration that changed something; safe to run again.
-- Deny by default: no table is writable by any login role, every table and partition is under
-- FORCE ROW LEVEL SECURITY, and a role without a policy sees no row.

set local client_min_messages = warning;

-- Functions run as the engine, whose policy opens all rows; each of them checks the tenant first.
-- Partition upkeep runs as the owner, because only an owner may attach and drop.
grant create on schema jobforge to jobforge_engine;
grant usage on schema jobforge to jobforge_engine, jobforge_client, jobforge_service,
    jobforge_worker, jobforge_admin, jobforge_server;
do $$
declare
    v_function record;
begin
    for v_function in
        select p.oid::regprocedure as signature,
               case when p.proname in ('ensure_partitions', 'apply_retention')
                    then 'jobforge_owner' else 'jobforge_engine' end as owner
          from pg_catalog.pg_proc as p
         where p.pronamespace = 'jobforge'::regnamespace
    loop
        execute format('revoke all on function %s from public', v_function.signature);
        execute format('alter function %s owner to %I', v_function.signature, v_function.owner);
    end loop;
end $$;
alter default privileges for role jobforge_owner revoke execute on functions from public;
alter default privileges for role jobforge_engine revoke execute on functions from public;

do $$
declare
    v_grant record;
    v_function record;
begin
    for v_grant in
        select * from (values
            ('jobforge_client',
             '{tenant,pre_request,enqueue_job,enqueue_jobs,enqueue_alike,cancel_job,cancel_jobs,
                reschedule_job,edit_job,retry_job,retry_jobs,get_job,list_jobs,list_notes,summarize,
                explain_job,enqueue_jobs_once,count_jobs,start_operation,get_operation,
                list_operations,cancel_operation,list_failures,annotate_failure,list_definitions,
                get_definition,list_queues,list_audit,emit_event,get_event,list_events,
                list_event_deliveries,replay_event,create_webhook,edit_webhook,delete_webhook,
                get_webhook,list_webhooks,rotate_webhook,test_webhook,list_deliveries,
                redeliver,list_steps,
                enqueue_workflow,get_workflow,list_workflows,cancel_workflow,retry_workflow,
                create_batch,add_to_batch,close_batch,get_batch,list_batches,cancel_batch}'::text[]),
            ('jobforge_service', '{find_tenant,complete_job}'),
            ('jobforge_worker',
             '{claim_jobs,heartbeat_job,heartbeat_jobs,complete_job,complete_jobs,
                succeed_jobs,release_jobs,reap_jobs,note_jobs,register_worker,unregister_worker,
                put_definition,ensure_partitions,apply_retention,regate_jobs,find_tenant,advance_operations,
                start_artifact_sweep,unused_artifacts,get_job,list_jobs,
                emit_event,pending_events,record_deliveries,
                open_delivery,record_delivery,load_steps,save_steps,enqueue_children,
                load_parents,add_workflow_jobs}'),
            ('jobforge_admin',
             '{tenant,pre_request,enqueue_job,enqueue_jobs,enqueue_alike,cancel_job,cancel_jobs,
                reschedule_job,edit_job,retry_job,retry_jobs,get_job,list_jobs,list_notes,summarize,
                explain_job,enqueue_jobs_once,count_jobs,start_operation,get_operation,
                list_operations,cancel_operation,list_failures,annotate_failure,list_definitions,
                get_definition,list_queues,list_audit,emit_event,get_event,list_events,
                list_event_deliveries,replay_event,claim_jobs,heartbeat_job,heartbeat_jobs,
                complete_job,complete_jobs,succeed_jobs,release_jobs,reap_jobs,note_jobs,
                register_worker,unregister_worker,put_definition,ensure_partitions,apply_retention,find_tenant,regate_jobs,advance_operations,
                start_artifact_sweep,unused_artifacts,
                pending_events,record_deliveries,
                override_definition,put_tenant,put_queue,pause_queue,
                resume_queue,pause_definition,resume_definition,pause_tenant,resume_tenant,
                list_tenants,list_workers,drain_worker,stop_worker,delete_tenant,create_api_key,
                list_api_keys,revoke_api_key,rotate_api_key,create_webhook,edit_webhook,
                delete_webhook,get_webhook,list_webhooks,rotate_webhook,test_webhook,
                list_deliveries,redeliver,open_delivery,record_delivery,list_steps,load_steps,save_steps,
                enqueue_children,load_parents,add_workflow_jobs,
                enqueue_workflow,get_workflow,list_workflows,cancel_workflow,retry_workflow,
                create_batch,add_to_batch,close_batch,get_batch,list_batches,cancel_batch}'),
            ('jobforge_client',
             '{create_trigger,edit_trigger,delete_trigger,get_trigger,list_triggers,list_firings,
                run_trigger,backfill_trigger}'),
            ('jobforge_worker', '{due_schedules,record_firings,declare_triggers}'),
            ('jobforge_admin',
             '{create_trigger,edit_trigger,delete_trigger,get_trigger,list_triggers,list_firings,
                run_trigger,backfill_trigger,due_schedules,record_firings,declare_triggers}'),
            ('jobforge_client',
             '{create_connector_config,edit_connector_config,delete_connector_config,
                get_connector_config,list_connector_configs}'),
            ('jobforge_worker', '{open_connector_config,keep_tenant_key}'),
            ('jobforge_admin',
             '{create_connector_config,edit_connector_config,delete_connector_config,
                get_connector_config,list_connector_configs,open_connector_config,keep_tenant_key,
                list_tenant_keys,rewrap_tenant_key}'),
            ('jobforge_admin',
             '{read_gauges,find_troubles,list_misses,list_migrations,list_holders}'),
            ('jobforge_client', '{get_statistics}'),
            ('jobforge_worker', '{roll_up_statistics,start_maintenance}'),
            ('jobforge_admin',
             '{get_statistics,meter_tenants,roll_up_statistics,start_maintenance}'),
            ('jobforge_server',
             '{find_api_key,touch_api_key,take_request,note_access,read_stream,count_states,
                find_worker}')
        ) as g(role, functions)
    loop
        for v_function in
            select p.oid::regprocedure as signature
              from pg_catalog.pg_proc as p
             where p.pronamespace = 'jobforge'::regnamespace and p.proname = any (v_grant.functions)
        loop
            execute format('grant execute on function %s to %I',
                           v_function.signature, v_grant.role);
            -- The server acts for everybody.
            execute format('grant execute on function %s to jobforge_server',
                           v_function.signature);
        end loop;
    end loop;
end $$;

-- Rows. A client reads its own tenant's; operators read all; only the engine writes. What is so
-- already is left alone: changing it would lock each table against the workers, in an order that is
-- not theirs. So conditions are written as Postgres shows them.
do $$
declare
    v_table record;
    v_policy record;
begin
    for v_table in
        select c.oid::regclass as name, c.relname, c.relispartition,
               c.relrowsecurity and c.relforcerowsecurity as is_forced,
               case when exists (select from pg_catalog.pg_attribute as a
                                  where a.attrelid = c.oid and a.attname = 'tenant_id')
                    then '(tenant_id = ( SELECT jobforge.tenant() AS tenant))'
                    when c.relname = 'tenants' then '(id = ( SELECT jobforge.tenant() AS tenant))'
                    else 'true' end as is_the_clients
          from pg_catalog.pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
         order by c.relname
    loop
        if not v_table.is_forced then
            execute format('alter table %s enable row level security', v_table.name);
            execute format('alter table %s force row level security', v_table.name);
        end if;
        execute format('revoke all on table %s from public', v_table.name);
        for v_policy in
            select p.* from (values
                ('engine_all', 'jobforge_engine', 'all', 'true', 'true', true),
                ('owner_all', 'jobforge_owner', 'all', 'true', 'true',
                 v_table.relname = 'migrations'),
                -- Partitions are reached through their parents only, by anybody.
                ('admin_reads', 'jobforge_admin', 'select', 'true', null,
                 not v_table.relispartition),
                ('client_reads', 'jobforge_client', 'select', v_table.is_the_clients, null,
                 not v_table.relispartition and v_table.relname not in (
                    'migrations', 'workers', 'rate_limits', 'api_keys', 'request_rates',
                    'artifact_sweeps', 'declared_schedules', 'webhook_endpoints', 'tenant_keys',
                    'connector_configs', 'statistics_position', 'maintenance'))
            ) as p(name, role, command, reads, writes, is_wanted)
             where p.is_wanted
        loop
            execute format('grant %s on table %s to %I',
                           case v_policy.command when 'all' then 'select, insert, update, delete'
                                                 else v_policy.command end,
                           v_table.name, v_policy.role);
            continue when exists (
                select from pg_catalog.pg_policies as e
                 where e.schemaname = 'jobforge' and e.tablename = v_table.relname
                   and e.policyname = v_policy.name and e.permissive = 'PERMISSIVE'
                   and e.roles = array[v_policy.role]::name[] and lower(e.cmd) = v_policy.command
                   and e.qual = v_policy.reads
                   and e.with_check is not distinct from v_policy.writes);
            execute format('drop policy if exists %I on %s', v_policy.name, v_table.name);
            execute format('create policy %I on %s for %s to %I using (%s)%s',
                           v_policy.name, v_table.name, v_policy.command, v_policy.role,
                           v_policy.reads, ' with check (' || v_policy.writes || ')');
        end loop;
    end loop;
end $$;
revoke all on jobforge.all_jobs, jobforge.all_attempts from public;
grant select on jobforge.all_jobs, jobforge.all_attempts
    to jobforge_engine, jobforge_client, jobforge_admin;

do $$
begin
    perform jobforge.ensure_partitions();
end $$;
