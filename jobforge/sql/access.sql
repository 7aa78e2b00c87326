-- Owners, grants and policies. Every migration that changed something applies this file last; safe
-- to run again. Grants and policies that this release does not list are removed, for any role.
-- Access is denied by default: no login role can write to a table, every table and partition is
-- under FORCE ROW LEVEL SECURITY, and a role without a policy sees no row.

set local client_min_messages = warning;

-- Functions run as the engine, whose policy allows all rows; each public function checks the tenant
-- first. Partition maintenance runs as the owner, because only an owner may attach and drop
-- partitions. These four functions define the correct state. The block at the end applies it, and
-- jobforge.access_faults() compares the database with it.
create or replace function jobforge_private.wanted_owners() returns table (
    kind text, object oid, owner text
)
language sql stable
as $$
    select 'schema', n.oid, 'jobforge_owner'
      from pg_catalog.pg_namespace as n
     where n.nspname in ('jobforge', 'jobforge_private')
    union all
    select case c.relkind when 'v' then 'view' when 'c' then 'type' when 'S' then 'sequence'
                          else 'table' end, c.oid, 'jobforge_owner'
      from pg_catalog.pg_class as c
     where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p', 'v', 'c', 'S')
    union all
    select 'function', p.oid,
               case when p.proname in ('ensure_partitions', 'apply_retention')
                    then 'jobforge_owner' else 'jobforge_engine' end as owner
      from pg_catalog.pg_proc as p
     where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
$$;

-- The functions that each role may execute, including all overloads of a name. jobforge_server may
-- execute all of them. These functions are in schema jobforge, all others in schema
-- jobforge_private.
create or replace function jobforge_private.granted_functions() returns table (
    role text, functions text[]
)
language sql immutable
as $$
        select * from (values
            ('jobforge_client',
             '{tenant,pre_request,enqueue_job,enqueue_jobs,enqueue_payloads,cancel_job,cancel_jobs,
                reschedule_job,edit_job,retry_job,retry_jobs,get_job,list_jobs,list_notes,summarize,
                explain_job,enqueue_jobs_once,count_jobs,start_operation,get_operation,
                list_operations,cancel_operation,list_failures,annotate_failure,list_definitions,
                get_definition,list_queues,list_audit,emit_event,get_event,list_events,
                list_event_deliveries,replay_event,create_webhook,edit_webhook,delete_webhook,
                get_webhook,list_webhooks,rotate_webhook,test_webhook,list_deliveries,
                redeliver,list_steps,
                enqueue_workflow,get_workflow,list_workflows,cancel_workflow,retry_workflow,
                create_batch,add_to_batch,close_batch,get_batch,list_batches,cancel_batch}'::text[]),
            ('jobforge_service', '{record_artifact_store}'),
            ('jobforge_worker', '{record_artifact_store,list_artifact_stores}'),
            ('jobforge_admin', '{record_artifact_store,list_artifact_stores}'),
            ('jobforge_service', '{find_tenant,complete_job}'),
            ('jobforge_worker',
             '{claim_jobs,claim_readable_jobs,heartbeat_job,heartbeat_jobs,complete_job,complete_jobs,
                succeed_jobs,release_jobs,reap_jobs,note_jobs,register_worker,unregister_worker,
                put_definition,ensure_partitions,apply_retention,regate_jobs,free_blocked_jobs,
                find_tenant,advance_operations,start_artifact_sweep,unused_artifacts,get_job,list_jobs,
                emit_event,pending_events,record_deliveries,
                open_delivery,record_delivery,load_steps,save_steps,enqueue_children,
                load_parents,add_workflow_jobs}'),
            ('jobforge_admin',
             '{tenant,pre_request,enqueue_job,enqueue_jobs,enqueue_payloads,cancel_job,cancel_jobs,
                reschedule_job,edit_job,retry_job,retry_jobs,get_job,list_jobs,list_notes,summarize,
                explain_job,enqueue_jobs_once,count_jobs,start_operation,get_operation,
                list_operations,cancel_operation,list_failures,annotate_failure,list_definitions,
                get_definition,list_queues,list_audit,emit_event,get_event,list_events,
                list_event_deliveries,replay_event,claim_jobs,claim_readable_jobs,heartbeat_job,heartbeat_jobs,
                complete_job,complete_jobs,succeed_jobs,release_jobs,reap_jobs,note_jobs,
                register_worker,unregister_worker,put_definition,ensure_partitions,apply_retention,find_tenant,regate_jobs,free_blocked_jobs,advance_operations,
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
             '{read_gauges,find_problems,find_unreadable,list_missed_firings,list_migrations,list_holders}'),
            ('jobforge_admin', '{bind_login,unbind_login,list_bound_logins}'),
            ('jobforge_client', '{erase_job}'),
            ('jobforge_admin', '{erase_job}'),
            ('jobforge_worker', '{next_erasure,confirm_erasure}'),
            ('jobforge_admin', '{next_erasure,confirm_erasure}'),
            ('jobforge_client', '{access_faults}'),
            ('jobforge_service', '{access_faults}'),
            ('jobforge_worker', '{access_faults}'),
            ('jobforge_admin', '{access_faults}'),
            ('jobforge_backup', '{access_faults}'),
            ('jobforge_client', '{get_statistics}'),
            ('jobforge_worker', '{roll_up_statistics,start_maintenance}'),
            ('jobforge_admin',
             '{get_statistics,meter_tenants,roll_up_statistics,start_maintenance}'),
            ('jobforge_server',
             '{find_api_key,touch_api_key,end_session,is_session_ended,take_request,note_access,read_stream,count_states,
                find_worker}')
        ) as g(role, functions)
$$;

-- Row policies. A client reads its own tenant's rows, operators and dumps read all, only the engine
-- writes. Conditions are written as Postgres shows them, because they are compared as text.
create or replace function jobforge_private.wanted_policies() returns table (
    object oid, name text, role text, command text, reads text, writes text
)
language sql stable
as $$
    select v_table.name, p.name, p.role, p.command, p.reads, p.writes
      from (
        select c.oid as name, c.relname, c.relispartition,
               case when exists (select from pg_catalog.pg_attribute as a
                                  where a.attrelid = c.oid and a.attname = 'tenant_id')
                    then '(tenant_id = ( SELECT jobforge.tenant() AS tenant))'
                    when c.relname = 'tenants' then '(id = ( SELECT jobforge.tenant() AS tenant))'
                    else 'true' end as is_the_clients
          from pg_catalog.pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
      ) as v_table
     cross join lateral (values
                ('engine_all', 'jobforge_engine', 'all', 'true', 'true', true),
                ('owner_all', 'jobforge_owner', 'all', 'true', 'true',
                 v_table.relname = 'migrations'),
                -- All roles except the engine reach partitions only through their parents.
                ('admin_reads', 'jobforge_admin', 'select', 'true', null,
                 not v_table.relispartition and v_table.relname <> 'signing_key'),
                ('client_reads', 'jobforge_client', 'select', v_table.is_the_clients, null,
                 not v_table.relispartition and v_table.relname not in (
                    'migrations', 'workers', 'rate_limits', 'api_keys', 'request_rates',
                    'ended_sessions',
                    'artifact_stores',
                    'artifact_sweeps', 'declared_triggers', 'webhook_endpoints', 'tenant_keys',
                    'connector_configs', 'statistics_position', 'maintenance', 'reaper',
                    'bound_logins', 'locks', 'signing_key')),
                -- pg_dump reads each partition by its own name.
                ('backup_reads', 'jobforge_backup', 'select', 'true', null, true)
            ) as p(name, role, command, reads, writes, is_wanted)
     where p.is_wanted
$$;

-- Grants on the schemas, the tables, the views and the functions.
create or replace function jobforge_private.wanted_grants() returns table (
    kind text, object oid, role text, privilege text
)
language sql stable
as $$
    select 'schema', 'jobforge'::regnamespace::oid, g.role, g.privilege
      from (values ('jobforge_engine', 'CREATE'), ('jobforge_engine', 'USAGE'),
                   ('jobforge_client', 'USAGE'), ('jobforge_service', 'USAGE'),
                   ('jobforge_worker', 'USAGE'), ('jobforge_admin', 'USAGE'),
                   ('jobforge_server', 'USAGE'), ('jobforge_backup', 'USAGE')) as g(role, privilege)
    union all
    select 'schema', 'jobforge_private'::regnamespace::oid, 'jobforge_engine', p.privilege
      from (values ('CREATE'), ('USAGE')) as p(privilege)
    union all
    -- Includes partitions: an erasure deletes from each by its name.
    select 'table', p.object, p.role, c.privilege
      from jobforge_private.wanted_policies() as p
     cross join unnest(case p.command when 'all'
                       then '{SELECT,INSERT,UPDATE,DELETE}' else '{SELECT}' end::text[])
           as c(privilege)
     where p.role <> 'jobforge_owner'
    union all
    select 'view', c.oid, g.role, 'SELECT'
      from pg_catalog.pg_class as c
     cross join (values ('jobforge_engine'), ('jobforge_client'), ('jobforge_admin')) as g(role)
     where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'v'
    union all
    select distinct 'function', p.oid, r.role, 'EXECUTE'
      from jobforge_private.granted_functions() as g
      join pg_catalog.pg_proc as p
           on p.pronamespace = 'jobforge'::regnamespace and p.proname = any (g.functions)
     -- The server acts for every role.
     cross join lateral (values (g.role), ('jobforge_server')) as r(role)
$$;

-- Changes only what differs, because a change of a table's owner, row security or policies locks
-- the table, in another order than the workers do.
do $$
declare
    v_remedy text;
begin
    for v_remedy in
        select f.remedy from jobforge_private.owner_faults() as f order by f.remedy
    loop
        execute v_remedy;
    end loop;
    for v_remedy in
        select f.remedy from jobforge_private.grant_faults() as f order by f.remedy
    loop
        execute v_remedy;
    end loop;
    for v_remedy in
        select f.remedy from jobforge_private.policy_faults() as f order by f.remedy
    loop
        execute v_remedy;
    end loop;
end $$;

-- Triggers that keep updates by any role within the bounds that functions check. Inserts are not
-- checked, because that would take 10% of the time of a single enqueue.
do $$
declare
    v_wanted record;
begin
    for v_wanted in
        select *
          from (values ('jobs', 'payload, result',
                        'for each statement when (current_user <> ''jobforge_engine'') '
                        'execute function jobforge_private.refuse_long_jobs()'),
                       ('finished_jobs', 'payload, result',
                        'for each row execute function '
                        'jobforge_private.refuse_long_row(payload, result)'),
                       ('events', 'data',
                        'for each row execute function jobforge_private.refuse_long_row(data)'),
                       ('triggers', 'payload, filter',
                        'for each row execute function '
                        'jobforge_private.refuse_long_row(payload, filter)'),
                       ('steps', 'result',
                        'for each row execute function jobforge_private.refuse_long_row(result)'))
               as w(name, columns, action)
         where not exists (
               select from pg_catalog.pg_trigger as t
                where t.tgrelid = ('jobforge.' || w.name)::regclass
                  and t.tgname = 'rows_have_bounded_text')
    loop
        execute pg_catalog.format(
            'create trigger rows_have_bounded_text after update of %s on jobforge.%I %s',
            v_wanted.columns, v_wanted.name, v_wanted.action);
    end loop;
end $$;

do $$
begin
    perform jobforge.ensure_partitions();
end $$;
