#!/bin/sh
# Create the logins of compose.yaml. The Postgres image runs this once, as the superuser, when it
# initializes its data directory, after roles.sql has created the roles.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
    --set=migrator_password="$MIGRATOR_PASSWORD" \
    --set=server_password="$SERVER_PASSWORD" \
    --set=worker_password="$WORKER_PASSWORD" <<'SQL'
create role jobs_migrator login password :'migrator_password' in role jobforge_owner;
create role jobs_server login password :'server_password' in role jobforge_server;
create role jobs_worker login password :'worker_password'
    in role jobforge_worker, jobforge_client;  -- jobforge_client, so that jobs can enqueue jobs
grant pg_read_all_stats to jobs_server;  -- so that metrics and doctor see who holds snapshots
select format('grant create on database %I to jobs_migrator', current_database()) \gexec
SQL
