"""The data of the dashboard's tests: a server, a worker, and two tenants with their history."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from api.api_server import SECRET_KEY, ApiServer, TenantKeys, open_api_server
from cluster import Database, wait_until
from integration.terminal import Terminal
from integration.webhook_receiver import WebhookReceiver, run_webhook_receiver
from psycopg.types.json import Jsonb

SHOP = Path(__file__).parent / "shop.py"
# With this, tracebacks name the file without its folder, because pictures show them.
APP = 'exec(compile(open("shop.py").read(), "shop.py", "exec"))\n'
STALE = "0198f3c2-0000-7000-8000-000000000001"
# the smallest integer that a JavaScript number cannot represent
UNSAFE_INTEGER = 9_007_199_254_740_993


@dataclass(frozen=True, slots=True)
class DashboardData:
    """Tenant A is acme, with jobs in every state; tenant B is globex, which uses much."""

    server: ApiServer
    folder: Path
    receiver: WebhookReceiver  # receives webhooks; the tests plan the responses of `refusing`
    refusing: WebhookReceiver
    # job IDs, by a name that says what the job shows
    jobs: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.url

    def enqueue(self, definition: str, payload: dict[str, Any], **options: Any) -> str:
        body = {"definition": definition, "payload": payload, **options}
        answer = self.server.client("tenant_admin").post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def state_of(self, job: str) -> str:
        answer = self.server.client("viewer").get(f"/jobs/{job}")
        return str(answer.json()["job"]["state"])

    def wait_for(self, job: str, *states: str) -> None:
        wait_until(lambda: self.state_of(job) in states, why=lambda: self.state_of(job))

    @contextmanager
    def bank_is_down(self) -> Iterator[None]:
        note = self.folder / "bank-is-down"
        note.touch()
        try:
            yield
        finally:
            note.unlink(missing_ok=True)


@contextmanager
def open_dashboard(database: Database, folder: Path) -> Iterator[DashboardData]:
    with (
        run_webhook_receiver() as receiver,
        run_webhook_receiver() as refusing,
        ExitStack() as stack,
    ):
        allowed = tuple(f"127.0.0.1:{each.port}" for each in (receiver, refusing))
        opened = stack.enter_context(
            open_api_server(database, egress_allow=allowed, egress_http=True)
        )
        shutil.copy(SHOP, folder)
        (folder / "app.py").write_text(APP, encoding="utf-8")
        url = database.url_as("worker_login")
        terminal = Terminal(
            folder,
            JOBFORGE_DATABASE_URL=url,
            JOBFORGE_BUILD="2026.11.2",
            JOBFORGE_SECRET_KEY=SECRET_KEY,
            JOBFORGE_EGRESS_ALLOW=",".join(allowed),
            JOBFORGE_EGRESS_HTTP="true",
        )
        with terminal.start("worker", "app.py", "--drain-timeout", "0s") as worker:
            worker.wait_for("worker.started")
            dashboard = DashboardData(opened, folder, receiver, refusing)
            _name_tenants(opened)
            _name_keys(opened)
            _make_history(dashboard)
            _make_stale_worker(opened)
            _create_statistics(opened)
            _create_missed_runs(opened)
            yield dashboard


def _name_tenants(opened: ApiServer) -> None:
    for party, name, weight in ((opened.a, "Acme", 4), (opened.b, "Globex", 1)):
        settings = {"slug": name.lower(), "name": name, "weight": weight}
        opened.conn.execute(
            "select jobforge.put_tenant(%s, %s)", [party.tenant_id, Jsonb(settings)]
        )


def _name_keys(opened: ApiServer) -> None:
    for role, name in (("worker", "Mailers"), ("tenant_admin", "Ada"), ("viewer", "Wall screen")):
        opened.conn.execute(
            "update jobforge.api_keys set name = %s where role = %s and tenant_id is not null",
            [name, role],
        )


def _make_history(dashboard: DashboardData) -> None:
    jobs = dashboard.jobs
    for number in range(12):
        jobs["welcome"] = dashboard.enqueue("send_welcome", {"to": f"ada{number}@example.com"})
    jobs["twice"] = dashboard.enqueue("charge_card", {"order": 1, "card": "amex"}, max_attempts=2)
    jobs["big"] = dashboard.enqueue(
        "charge_card", {"order": UNSAFE_INTEGER}, tags=["vip"], priority=5
    )
    dashboard.wait_for(jobs["big"], "succeeded")
    with dashboard.bank_is_down():
        for order in range(4711, 4717):
            jobs["dead"] = dashboard.enqueue("charge_card", {"order": order})
        dashboard.wait_for(jobs["dead"], "dead")
    jobs["refused"] = dashboard.enqueue("charge_card", {"order": 4800, "card": "diners"})
    dashboard.wait_for(jobs["refused"], "dead")
    groups = dashboard.server.client("viewer").get("/failures").json()["items"]
    jobs["fingerprint"] = max(groups, key=lambda group: int(group["jobs"]))["fingerprint"]
    jobs["later"] = dashboard.enqueue("send_welcome", {"to": "eve@example.com"}, delay_s=7200)
    # A queue without a worker: the explanation of its waiting jobs can be tested.
    jobs["waiting"] = dashboard.enqueue("make_report", {"month": "2026-10"}, queue="exports")
    report = {"month": "2026-11", "pages": 300, "page_s": 1.5}
    jobs["running"] = dashboard.enqueue("make_report", report)
    dashboard.wait_for(jobs["running"], "running")
    dashboard.wait_for(jobs["twice"], "dead")
    jobs["foreign"] = _enqueue_for(dashboard.server, dashboard.server.b)
    flood = {"definition": "make_report", "payload": {"month": "2026-10"}, "queue": "exports"}
    globex = dashboard.server.client("tenant_admin", dashboard.server.b)
    globex.post("/jobs/batch", json={"jobs": [flood] * 250}).raise_for_status()


def _enqueue_for(opened: ApiServer, party: TenantKeys) -> str:
    body = {"definition": "send_welcome", "payload": {"to": "secret@globex.example"}}
    return str(opened.client("tenant_admin", party).post("/jobs", json=body).json()["id"])


def _make_stale_worker(opened: ApiServer) -> None:
    opened.conn.execute(
        "select jobforge.register_worker(%s, %s, 8, p_host => 'batch-7', p_pid => 4242, "
        "p_build => '2026.11.1')",
        [UUID(STALE), ["reports"]],
    )
    opened.conn.execute(
        "update jobforge.workers set heartbeat_at = heartbeat_at - interval '5 minutes', "
        "live_until = live_until - interval '5 minutes', "
        "started_at = started_at - interval '3 hours', memory_bytes = 222298112, "
        "clock_skew_s = 4.2 where id = %s",
        [UUID(STALE)],
    )


# As a roll-up leaves it: an hour of attempts with one bad quarter; tenant B requested more of them.
_PAST = """
insert into jobforge.minute_statistics
select w.tenant, date_bin('1 minute', now(), 'epoch') - make_interval(mins => m), w.n - f.n, f.n, 0,
       0, 0, w.n * w.ms / 4, w.n * w.ms, w.n * 20, 52428800, w.definition, w.queue,
       array_fill(0, array[w.at - 2]) || array[w.n - 2, 2] || array_fill(0, array[32 - w.at]),
       array_fill(0, array[w.at]) || array[w.n - 1, 1] || array_fill(0, array[30 - w.at])
  from generate_series(1, 59) as m
 cross join lateral (values
        (%(a)s::uuid, 'send_welcome', 'mail', 9, 250, (22 + 9 * sin(m / 7.0))::integer),
        (%(a)s::uuid, 'charge_card', 'payments', 11, 900, (9 + 4 * cos(m / 5.0))::integer),
        (%(a)s::uuid, 'resize', 'photos', 7, 60, mod(m, 4) + 5),
        (%(b)s::uuid, 'send_welcome', 'mail', 10, 400, (15 + 5 * cos(m / 9.0))::integer)
       ) as w(tenant, definition, queue, at, ms, n)
 cross join lateral (
        select case when w.definition = 'charge_card' and m between 18 and 31 then w.n / 2
                    else 0 end) as f(n)
    on conflict do nothing
"""


# The times over the day at which jobs failed with the same error.
_DEATHS = """
update jobforge.jobs as j
   set queued_at = j.queued_at - d.ago,
       started_at = j.started_at - d.ago,
       finished_at = j.finished_at - d.ago
  from (select id, power(row_number() over (partition by fingerprint order by id desc) - 1, 2)
                   * interval '34 minutes' as ago
          from jobforge.jobs where state = 'dead') as d
 where j.id = d.id
"""


def _create_statistics(opened: ApiServer) -> None:
    opened.conn.execute(_PAST, {"a": opened.a.tenant_id, "b": opened.b.tenant_id})
    opened.conn.execute(_DEATHS)
    # The build that fixed the failure.
    opened.conn.execute(
        "update jobforge.workers set started_at = now() - interval '17 minutes' "
        "where build = '2026.11.2'"
    )


_MISSES = """
insert into jobforge.firings (tenant_id, trigger_id, fire_at, at, outcome, reason)
select %(tenant)s, %(trigger)s, f.at, f.at + interval '2 seconds', f.outcome, f.reason
  from (values (now() - interval '2 hours', 'skipped', 'the previous run is not finished'),
               (now() - interval '26 hours', 'failed', 'definition make_export not found')
       ) as f(at, outcome, reason)
"""


def _create_missed_runs(opened: ApiServer) -> None:
    export = {
        "type": "schedule",
        "label": "Nightly export",
        "definition": "make_report",
        "cron": "0 22 * * *",
        "payload": {"month": "2026-11"},
        "overlap": "skip",
    }
    dashboard = opened.client("tenant_admin", opened.b).post("/triggers", json=export)
    ids = {"tenant": opened.b.tenant_id, "trigger": dashboard.json()["id"]}
    opened.conn.execute(_MISSES, ids)


def find_browser() -> str | None:
    """Return Debian's Chromium, or the configured one."""
    path = os.environ.get("JOBFORGE_CHROMIUM", "/usr/bin/chromium")
    return path if Path(path).exists() else None
