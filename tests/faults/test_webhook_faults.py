"""Each completion has exactly one message, and it is delivered, whatever is killed."""

import json
import random
from functools import partial
from uuid import UUID

import pytest
from cluster import wait_until
from faults.producer import TENANTS
from faults.scenario import SEED, Scenario, times
from integration.webhook_receiver import run_webhook_receiver, subscribe
from sql.webhook_endpoints import CONNECTOR, unmatched_messages

from jobforge import calls, db
from jobforge.types.webhooks import Delivery, DeliveryState

KILLS = times(6, 300)
PROCESSES = 3
BACKLOG = 30
WAITING = "select count(*) from jobforge.jobs where queue = 'faults'"

pytestmark = pytest.mark.timeout(times(120, 3600))


def test_killed_workers_leave_no_completion_without_a_delivered_message(
    scenario: Scenario, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    under_load = 0
    with (
        run_webhook_receiver() as receiver,
        scenario.worker_group() as group,
        scenario.producer() as producer,
    ):
        subscribed = [subscribe(scenario.conn, receiver, tenant) for tenant in TENANTS[:2]]
        reach = {
            "JOBFORGE_SECRET_KEY": str(receiver.worker_config.secret_key),
            "JOBFORGE_EGRESS_ALLOW": ",".join(receiver.worker_config.egress_allow),
            "JOBFORGE_EGRESS_HTTP": "true",
        }
        scenario.wait_until_ready(*(group.start(**reach) for _ in range(PROCESSES)))
        # A lost lease is retried after a backoff, which must not take longer than the test.
        soon = {"backoff_base_s": 0.05, "backoff_cap_s": 0.2, "max_attempts": 1000}
        db.run(scenario.conn, calls.override_definition(CONNECTOR, soon))
        for _ in range(KILLS):
            if scenario.value(WAITING) < BACKLOG:  # except the messages
                producer.enqueue([scenario.random_job(chance) for _ in range(BACKLOG)])
            goal = scenario.oracle.count("exit") + chance.randrange(8)
            wait_until(partial(scenario.has_finished, goal), within_s=60)
            worker = scenario.pick_busy(group, chance)
            worker.kill()
            under_load += bool(scenario.leases_left_by(worker))
            group.members.remove(worker)
            group.start(**reach)
        scenario.finish(group, within_s=times(60, 300))
    assert under_load > 0, "the workers had nothing to lose"
    assert unmatched_messages(scenario.conn) == 0

    sent = {
        f"msg_{delivery.id.hex}": (tenant, delivery)
        for tenant, (webhook_id, _) in zip(TENANTS, subscribed, strict=False)
        for delivery in _deliveries(scenario, tenant, webhook_id)
    }
    assert {delivery.state for _, delivery in sent.values()} == {DeliveryState.DELIVERED}
    assert {received.id for received in receiver.received} == set(sent)
    secrets = {
        str(tenant): secret for tenant, (_, secret) in zip(TENANTS, subscribed, strict=False)
    }
    for received in receiver.received:
        body = json.loads(received.body)
        tenant, delivery = sent[received.id]
        assert body["data"]["tenant_id"] == str(tenant)
        assert body["data"]["job_id"] == str(delivery.subject_id)
        assert received.is_signed_with(secrets[str(tenant)])
    figures |= {
        "kills": KILLS,
        "kills while jobs ran": under_load,
        "messages": len(sent),
        "sent more than once": len(receiver.received) - len(sent),
        "outcomes": scenario.outcomes(),
    }


def _deliveries(scenario: Scenario, tenant: UUID, webhook_id: UUID) -> list[Delivery]:
    """Return all deliveries, page by page."""
    found: list[Delivery] = []
    while True:
        before = found[-1].id if found else None
        call = calls.list_deliveries(webhook_id, limit=200, before=before)
        page = db.run(scenario.conn, call.for_tenant(tenant))
        found += page
        if not page:
            return found
