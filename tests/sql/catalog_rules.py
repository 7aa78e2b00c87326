"""The rules for every object in schema jobforge, as queries on the catalog.

Each rule is a query that names the offenders, and a breach: statements that break the rule. An
exception is listed here with its reason, so that adding one is a decision.
"""

from dataclasses import dataclass

from cluster import Connection

# Installation tables: their rows belong to no tenant.
INSTALLATION = {
    "definitions": "what code registered, the same for every tenant",
    "signing_key": "one random key for each database",
    "bound_logins": "which logins may act for which tenants",
    "queues": "limits and pauses that operators set for all",
    "workers": "processes; one serves many tenants",
    "rate_limits": "token buckets, read by the engine alone",
    "request_rates": "token buckets of the server's requests",
    "ended_sessions": "random ids of sessions, kept until they would have expired",
    "declared_triggers": "what code declares for every tenant",
    "artifact_stores": "which processes use which store",
    "artifact_sweeps": "when the last sweep of artifacts began",
    "statistics_position": "up to where attempts of all tenants were added up",
    "maintenance": "when each task was begun last",
    "migrations": "the record of applied files",
    "tenants": "its id is the tenant",
}

# Tables with a tenant_id that may be null.
NULLABLE = {
    "api_keys": "those of super admins and of workers that serve all tenants have none",
    "audit_log": "operators also act on the installation, which has no tenant",
    "workers": "those that serve all tenants have none",
}

# Unique keys that do not start with tenant_id. A violation reveals that the value exists, so no
# tenant may be able to choose the value.
UNIQUE = {
    "definitions_pkey": "registered by code",
    "tenants_pkey": "chosen by operators",
    "tenant_slugs_are_unique": "chosen by operators",
    "queues_pkey": "chosen by operators",
    "signing_key_pkey": "there is one row",
    "bound_logins_pkey": "chosen by operators",
    "workers_pkey": "a random UUID of a process",
    "rate_limits_pkey": "made by the engine, which only updates on a conflict",
    "audit_log_pkey": "made by the engine",
    "api_keys_pkey": "made by the engine",
    "api_key_lookups_are_unique": "made by the server, at random",
    "request_rates_pkey": "made by the server, which only updates on a conflict",
    "ended_sessions_pkey": "made by the server, at random",
    "declared_triggers_pkey": "declared by code",
    "a_process_is_recorded_once": "recorded by processes, and only updated on a conflict",
    "artifact_sweeps_pkey": "there is one row",
    "statistics_position_pkey": "there is one row",
    "maintenance_pkey": "tasks of our own",
    "migrations_pkey": "names of files",
}

# Indexes of the history that do not start with tenant_id: tenants do not read them directly.
STREAMED = {
    "attempts_in_order": "the server reads all tenants' at once",
    "finished_jobs_in_order": "the server reads all tenants' at once",
    "job_events_in_order": "the server reads all tenants' at once",
    "minute_statistics_in_order": "operators read all tenants' at once",
    "audit_log_pkey": "operators read all tenants' at once",
}

# Functions that run as the owner of the tables, because only an owner can attach and drop
# partitions.
OWNERS = {"ensure_partitions", "apply_retention"}


@dataclass(frozen=True, slots=True)
class Rule:
    """`query` returns one row with the column `offender` for each breach of the rule."""

    name: str
    query: str
    breach: str


def offenders(conn: Connection, rule: Rule) -> list[str]:
    return [str(row["offender"]) for row in conn.execute(rule.query.encode(), FACTS)]


FACTS = {
    "installation": list(INSTALLATION),
    "nullable": list(NULLABLE),
    "unique": list(UNIQUE),
    "owners": list(OWNERS),
    "streamed": list(STREAMED),
    "compared": r"^\(\w*id = \( SELECT jobforge\.tenant\(\)",
    "effects": r"\m(insert into|update jobforge|delete from|for (no key )?update|for share"
    r"|pg_notify|(perform|select) set_config|\w*advisory\w*)\M",
    "unsteady": r"\m(current_setting|now|clock_timestamp|random|gen_random_uuid|session_user)\M",
}

RULES = [
    Rule(
        "every table and partition is under forced row security",
        """
        select c.relname as offender from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and not (c.relrowsecurity and c.relforcerowsecurity)
        """,
        "alter table jobforge.attempts_default no force row level security",
    ),
    Rule(
        "every table and partition has a replica identity",
        """
        select c.relname as offender from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and c.relreplident <> 'f'
           and not exists (select from pg_index as i
                            where i.indrelid = c.oid and i.indisvalid
                              and case c.relreplident when 'd' then i.indisprimary
                                       when 'i' then i.indisreplident end)
        """,
        "alter table jobforge.attempts_default replica identity nothing",
    ),
    Rule(
        "every table and partition has the engine's policy",
        """
        select c.relname as offender from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and not exists (select from pg_policy as p
                            where p.polrelid = c.oid and p.polcmd = '*'
                              and p.polroles = array['jobforge_engine'::regrole::oid])
        """,
        "drop policy engine_all on jobforge.finished_jobs_default",
    ),
    Rule(
        "a client's policy compares the tenant, except on tables of the installation",
        """
        select p.polname || ' on ' || c.relname as offender
          from pg_policy as p join pg_class as c on c.oid = p.polrelid
         where 'jobforge_client'::regrole = any (p.polroles)
           and (p.polcmd <> 'r'
                or pg_get_expr(p.polqual, p.polrelid) !~ %(compared)s
                   and (c.relname <> all (%(installation)s) or c.relname = 'tenants'))
        """,
        "alter policy client_reads on jobforge.jobs using (true)",
    ),
    Rule(
        "no policy grants rows to a role other than JobForge's",
        """
        select p.polname || ' on ' || p.polrelid::regclass as offender
          from pg_policy as p join pg_class as c on c.oid = p.polrelid
         cross join unnest(p.polroles) as r(oid)
          left join pg_roles as o on o.oid = r.oid
         where c.relnamespace = 'jobforge'::regnamespace
           and coalesce(o.rolname, 'public') not in
               ('jobforge_owner', 'jobforge_engine', 'jobforge_client', 'jobforge_admin',
                'jobforge_backup')
        """,
        "create policy open_to_all on jobforge.jobs for select using (true)",
    ),
    Rule(
        "only the engine writes, and no role truncates",
        """
        select c.relname || ': ' || a.privilege_type || ' for ' || a.grantee::regrole as offender
          from pg_class as c
         cross join lateral aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) as a
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
           and a.grantee <> c.relowner
           and not (a.grantee = 'jobforge_engine'::regrole
                    and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE'))
           and not (a.privilege_type = 'SELECT' and not c.relispartition
                    and a.grantee in ('jobforge_client'::regrole, 'jobforge_admin'::regrole))
           -- pg_dump reads each partition by its own name.
           and not (a.privilege_type = 'SELECT' and c.relkind in ('r', 'p')
                    and a.grantee = 'jobforge_backup'::regrole)
        """,
        "grant select on jobforge.attempts_default to jobforge_client",
    ),
    Rule(
        "no privilege is granted on a single column",
        """
        select a.attrelid::regclass || '.' || a.attname as offender
          from pg_attribute as a join pg_class as c on c.oid = a.attrelid
         where c.relnamespace = 'jobforge'::regnamespace and a.attacl is not null
        """,
        "grant update (priority) on jobforge.jobs to jobforge_client",
    ),
    Rule(
        "only the engine may use sequences",
        """
        select c.relname || ' for ' || a.grantee::regrole as offender
          from pg_class as c
         cross join lateral aclexplode(coalesce(c.relacl, acldefault('s', c.relowner))) as a
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'S'
           and a.grantee not in (c.relowner, 'jobforge_engine'::regrole)
        """,
        "create sequence jobforge.numbers; grant usage on sequence jobforge.numbers to public",
    ),
    Rule(
        "only the owner and the engine create objects in the schema",
        """
        select a.privilege_type || ' for ' || a.grantee::regrole as offender
          from pg_namespace as n cross join lateral aclexplode(n.nspacl) as a
         where n.nspname in ('jobforge', 'jobforge_private')
           and (a.grantee = 0 or a.privilege_type = 'CREATE'
                and a.grantee not in ('jobforge_owner'::regrole, 'jobforge_engine'::regrole))
        """,
        "grant usage on schema jobforge to public",
    ),
    Rule(
        "only the owner and the engine use the schema of internal functions",
        """
        select a.privilege_type || ' for ' || a.grantee::regrole as offender
          from pg_namespace as n cross join lateral aclexplode(n.nspacl) as a
         where n.nspname = 'jobforge_private'
           and a.grantee not in ('jobforge_owner'::regrole, 'jobforge_engine'::regrole)
        """,
        "grant usage on schema jobforge_private to jobforge_admin",
    ),
    Rule(
        "only the engine executes internal functions",
        """
        select p.oid::regprocedure || ' for ' || a.grantee::regrole as offender
          from pg_proc as p
         cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
         where p.pronamespace = 'jobforge_private'::regnamespace and a.grantee <> p.proowner
        """,
        """
        create function jobforge_private.breach() returns int language sql return 1;
        grant execute on function jobforge_private.breach() to jobforge_admin
        """,
    ),
    Rule(
        "the schema of internal functions contains only functions",
        """
        select c.relname as offender from pg_class as c
         where c.relnamespace = 'jobforge_private'::regnamespace
        """,
        "create table jobforge_private.breach ()",
    ),
    Rule(
        "tables and views belong to the owner",
        """
        select c.relname as offender from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace
           and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
           and c.relowner <> 'jobforge_owner'::regrole
        """,
        "alter view jobforge.all_jobs owner to jobforge_engine",
    ),
    Rule(
        "views obey the reader's row security",
        """
        select c.relname as offender from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('v', 'm')
           and not coalesce('security_invoker=true' = any (c.reloptions), false)
        """,
        "alter view jobforge.all_jobs set (security_invoker = false)",
    ),
    Rule(
        "every row has a tenant, except rows of the installation",
        """
        select c.relname as offender from pg_class as c
          join pg_class as r on r.oid = coalesce(pg_partition_root(c.oid), c.oid)
          left join pg_attribute as a on a.attrelid = c.oid and a.attname = 'tenant_id'
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and (a.attnum is null and r.relname <> all (%(installation)s)
                or not a.attnotnull and r.relname <> all (%(nullable)s))
        """,
        "create table jobforge.notes (id uuid primary key)",
    ),
    Rule(
        "a unique key over what a tenant can choose starts with tenant_id",
        """
        select i.indexrelid::regclass as offender
          from pg_index as i
          join pg_class as c on c.oid = coalesce(pg_partition_root(i.indexrelid), i.indexrelid)
         where c.relnamespace = 'jobforge'::regnamespace
           and (i.indisunique or i.indisexclusion) and c.relname <> all (%(unique)s)
           and not exists (select from pg_attribute as a
                            where a.attrelid = i.indrelid and a.attnum = i.indkey[0]
                              and a.attname = 'tenant_id')
        """,
        "create unique index jobs_by_key on jobforge.jobs (idempotency_key, tenant_id)",
    ),
    Rule(
        "indexes of the history start with tenant_id",
        """
        select i.indexrelid::regclass as offender
          from pg_index as i join pg_class as t on t.oid = i.indrelid
          left join pg_inherits as h on h.inhrelid = i.indexrelid
          join pg_class as o on o.oid = coalesce(h.inhparent, i.indexrelid)
         where t.relnamespace = 'jobforge'::regnamespace and (t.relkind = 'p' or t.relispartition)
           and o.relname <> all (%(streamed)s)
           and not exists (select from pg_attribute as a
                            where a.attrelid = i.indrelid and a.attnum = i.indkey[0]
                              and a.attname = 'tenant_id')
        """,
        "create index attempts_by_definition on jobforge.attempts (definition)",
    ),
    Rule(
        "a foreign key between tenants' rows includes the tenant",
        """
        select k.conname as offender from pg_constraint as k
         where k.connamespace = 'jobforge'::regnamespace and k.contype = 'f'
           and not exists (
               select from unnest(k.conkey, k.confkey) as pair(here, there)
                 join pg_attribute as h on h.attrelid = k.conrelid and h.attnum = pair.here
                 join pg_attribute as t on t.attrelid = k.confrelid and t.attnum = pair.there
                where h.attname = 'tenant_id' and t.attname in ('tenant_id', 'id'))
        """,
        """
        create unique index on jobforge.jobs (id);
        alter table jobforge.idempotency_keys
          add constraint keys_have_a_job foreign key (job_id) references jobforge.jobs (id)
        """,
    ),
    Rule(
        "security definer functions pin a search_path that ends with pg_temp",
        """
        select p.oid::regprocedure as offender from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.prosecdef
           and not coalesce(p.proconfig && '{"search_path=pg_catalog, pg_temp"}'::text[], false)
        """,
        "alter function jobforge.get_job(uuid, uuid) set search_path = jobforge, public",
    ),
    Rule(
        "no function is executable by PUBLIC",
        """
        select p.oid::regprocedure as offender from pg_proc as p
         cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and a.grantee = 0
        """,
        "grant execute on function jobforge.reap_jobs(integer) to public",
    ),
    Rule(
        "functions belong to the engine, and partition maintenance to the owner",
        """
        select p.oid::regprocedure as offender from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.proowner <> case when p.proname = any (%(owners)s) then 'jobforge_owner'::regrole
                                  else 'jobforge_engine'::regrole end
        """,
        "alter function jobforge.claim_jobs owner to jobforge_owner",
    ),
    Rule(
        "a function with effects is volatile",
        r"""
        select p.oid::regprocedure as offender from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.provolatile <> 'v'
           and p.prosrc ~* %(effects)s
        """,
        "alter function jobforge.cancel_job stable",
    ),
    Rule(
        "an immutable function reads no table, no setting and no clock",
        r"""
        select p.oid::regprocedure as offender from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.provolatile = 'i'
           and (p.prosrc ~* %(unsteady)s
                or exists (select from pg_class as c
                            where c.relnamespace = 'jobforge'::regnamespace
                              and c.relkind in ('r', 'p', 'v')
                              and p.prosrc ~ ('\mjobforge\.' || c.relname || '\M')))
        """,
        "alter function jobforge.tenant() immutable",
    ),
    Rule(
        # A statement has one snapshot: counting rows under a lock requires a statement after the
        # lock.
        "counting under a lock requires a volatile function",
        """
        select p.oid::regprocedure as offender from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.proname in ('count_running', 'now') and p.provolatile <> 'v'
        """,
        "alter function jobforge_private.count_running stable",
    ),
    Rule(
        "notifications carry no payload",
        r"""
        select p.oid::regprocedure as offender from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and regexp_count(p.prosrc, '\mpg_notify\(')
               <> regexp_count(p.prosrc, '\mpg_notify\([^;]*?, ''''\)')
        """,
        """
        create or replace function jobforge_private.wake_workers(p_queue text default null)
        returns void language sql as $$ select pg_notify('jobforge:' || p_queue, p_queue) $$
        """,
    ),
    Rule(
        "JobForge's roles cannot log in and have no privileges outside the schema",
        """
        select r.rolname as offender from pg_roles as r
         where r.rolname like 'jobforge\\_%%'
           and (r.rolsuper or r.rolbypassrls or r.rolcanlogin or r.rolcreaterole or r.rolcreatedb
                or r.rolreplication)
        """,
        "alter role jobforge_worker bypassrls",
    ),
    Rule(
        "of JobForge's roles only the owner is a member of another",
        """
        select m.member::regrole || ' in ' || m.roleid::regrole as offender
          from pg_auth_members as m join pg_roles as r on r.oid = m.member
         where r.rolname like 'jobforge\\_%%'
           and not (r.rolname = 'jobforge_owner' and m.roleid = 'jobforge_engine'::regrole)
        """,
        "grant jobforge_engine to jobforge_client",
    ),
]
