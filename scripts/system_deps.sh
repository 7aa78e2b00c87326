#!/bin/sh
# Installs Debian's Postgres 15, PgBouncer, libfaketime and Chromium for tests, if possible.
# Without these programs the tests that use them are skipped, so this script never fails the build.

if [ -x /usr/lib/postgresql/15/bin/pg_ctl ] && [ -x /usr/sbin/pgbouncer ] &&
    [ -x "${JOBFORGE_CHROMIUM:-/usr/bin/chromium}" ] &&
    ls /usr/lib/*/faketime/libfaketimeMT.so.1 > /dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    exit 0
fi

# Keep the packages from creating a cluster and starting services; the tests start their own.
settings=/etc/postgresql-common/createcluster.conf
if [ ! -e "$settings" ]; then
    mkdir -p "$(dirname "$settings")"
    echo "create_main_cluster = false" > "$settings"
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
install() {
    timeout 300 apt-get install -y -q --no-install-recommends \
        -o Dpkg::Options::=--force-confold postgresql-15 pgbouncer libfaketime chromium
}
if (install || { timeout 120 apt-get update -q && install; }) > /dev/null 2>&1; then
    echo "installed Postgres 15, PgBouncer, libfaketime and Chromium for the tests"
else
    echo "Postgres 15, PgBouncer, libfaketime and Chromium could not be installed; tests that use them are skipped"
fi
exit 0
