"""Webhooks, from the end of a job to the receiver, with a real worker over loopback."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import pytest
import standardwebhooks
from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.webhook_receiver import (
    PlannedResponse,
    WebhookReceiver,
    run_webhook_receiver,
    subscribe,
)
from integration.worker_harness import WorkerHarness, eventually

from jobforge import calls, connectors, db
from jobforge.calls import Call
from jobforge.config import Config
from jobforge.connectors import webhook_deliver
from jobforge.security import webhook_secrets
from jobforge.security.vault import open_vault
from jobforge.types.jobs import State
from jobforge.types.webhooks import Delivery, DeliveryState, Webhook
from jobforge.worker import Worker

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class WebhookHarness(WorkerHarness):
    """Workers that deliver, and one endpoint of tenant A. The job `greet` succeeds at once."""

    def __init__(self, database: Database, conn: Connection, receiver: WebhookReceiver) -> None:
        super().__init__(database, conn)
        self.receiver = receiver
        self.webhook_id, self.secret = subscribe(conn, receiver, TENANT_A)

        @self.app.job(isolation="inline")
        async def greet(name: str) -> str:
            return f"hello {name}"

        self.register()

    def worker(self, pool: db.Database, **options: Any) -> Worker:
        tools = connectors.ConnectorServices(pool.run, self.receiver.worker_config)
        make = partial(connectors.make_connectors, services=tools, client=self.app.client)
        queues = {"default": 10, connectors.QUEUE: 10}
        return super().worker(pool, **{"queues": queues, "make_connectors": make, **options})

    def run(self, call: Call[T]) -> T:
        return db.run(self.conn, call.for_tenant(TENANT_A))

    def webhook(self) -> Webhook:
        return self.run(calls.get_webhook(self.webhook_id))

    @property
    def deliveries(self) -> list[Delivery]:
        """Return the deliveries, newest first."""
        return self.run(calls.list_deliveries(self.webhook_id))

    @property
    def delivery(self) -> Delivery:
        return self.deliveries[0]

    def greet(self) -> UUID:
        return self.enqueue("greet", {"name": "Ada"})

    async def wait_for_attempts(self, times: int = 1) -> Delivery:
        """Wait until the newest delivery has this many attempts and a settled job; return the
        delivery.
        """
        await eventually(lambda: self.delivery.attempts == times)
        job_id = self.delivery.job_id
        assert job_id is not None
        await eventually(lambda: self.state(job_id) not in {State.RUNNING, State.QUEUED})
        return self.delivery


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with run_webhook_receiver() as opened:
        yield opened


@pytest.fixture
def harness(database: Database, conn: Connection, receiver: WebhookReceiver) -> WebhookHarness:
    return WebhookHarness(database, conn, receiver)


@asynccontextmanager
async def sent_greeting(
    harness: WebhookHarness, *answers: PlannedResponse
) -> AsyncIterator[Delivery]:
    """Run a job whose message was sent once, with a worker that continues."""
    if answers:
        harness.receiver.responses[:] = answers
    before = len(harness.deliveries)
    async with harness.running_worker():
        harness.greet()
        await eventually(lambda: len(harness.deliveries) > before)
        yield await harness.wait_for_attempts()


async def test_the_end_of_a_job_is_delivered_signed(harness: WebhookHarness) -> None:
    harness.run(calls.edit_webhook(harness.webhook_id, {"events": ["start", "end"]}))
    async with harness.running_worker():
        job_id = harness.enqueue("greet", {"name": "Ada"}, traceparent="00-ab-cd-01")
        await eventually(lambda: len(harness.receiver.received) == 2)
        await eventually(lambda: {d.state for d in harness.deliveries} == {DeliveryState.DELIVERED})
    by_type = {one.verify(harness.secret)["type"]: one for one in harness.receiver.received}
    assert set(by_type) == {"job.started", "job.succeeded"}
    message = by_type["job.succeeded"].verify(harness.secret)
    assert (message["data"]["job_id"], message["data"]["result"]) == (str(job_id), "hello Ada")
    headers = by_type["job.succeeded"].headers
    assert headers["content-type"] == "application/json"
    assert headers["traceparent"] == "00-ab-cd-01"
    assert {f"msg_{d.id.hex}" for d in harness.deliveries} == {
        one.id for one in harness.receiver.received
    }
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(harness.secret).verify(
            by_type["job.succeeded"].body + b" ", headers
        )


async def test_a_retry_has_the_same_id_and_follows_the_schedule(
    harness: WebhookHarness,
) -> None:
    async with sent_greeting(
        harness, PlannedResponse(500, b"out of order"), PlannedResponse()
    ) as failed:
        assert (failed.state, failed.status) == (DeliveryState.PENDING, 500)
        assert (failed.error, failed.response) == ("The receiver returned 500", "out of order")
        assert failed.attempted_at is not None
        assert failed.next_attempt_at is not None
        wait_s = (failed.next_attempt_at - failed.attempted_at).total_seconds()
        assert wait_s >= webhook_deliver.RETRY_DELAYS_S[0]
        assert harness.webhook().failing_since is not None
        harness.run(calls.redeliver(harness.webhook_id, failed.id))
        delivered = await harness.wait_for_attempts(2)
        assert (delivered.state, delivered.status) == (DeliveryState.DELIVERED, 204)
        assert harness.webhook().failing_since is None
        harness.run(calls.redeliver(harness.webhook_id, failed.id))
        await harness.wait_for_attempts(3)
    first, *others = harness.receiver.received
    assert [one.id for one in others] == [first.id] * 2
    assert [one.body for one in others] == [first.body] * 2
    for one in harness.receiver.received:
        one.verify(harness.secret)


async def test_both_secrets_sign_during_the_overlap_of_a_rotation(harness: WebhookHarness) -> None:
    key = db.run(
        harness.conn, open_vault(harness.receiver.worker_config).build_tenant_key_call(TENANT_A)
    )
    new = harness.run(webhook_secrets.rotate_webhook(harness.webhook_id, key, overlap_s=3600))
    async with sent_greeting(harness):
        pass
    [received] = harness.receiver.received
    assert received.verify(harness.secret) == received.verify(new)
    assert len(received.headers["webhook-signature"].split(" ")) == 2
    last = harness.run(webhook_secrets.rotate_webhook(harness.webhook_id, key, overlap_s=0))
    async with sent_greeting(harness):
        pass
    received = harness.receiver.received[-1]
    received.verify(last)
    for old in (harness.secret, new):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            received.verify(old)


async def test_status_410_disables_the_endpoint_and_the_job_is_dead(
    harness: WebhookHarness,
) -> None:
    async with sent_greeting(harness, PlannedResponse(410)) as gone:
        assert (gone.state, gone.status) == (DeliveryState.FAILED, 410)
        assert gone.job_id is not None
        assert harness.state(gone.job_id) is State.DEAD
        assert harness.webhook().disabled_reason == "the receiver returned 410 Gone"
        await harness.wait_for_state(harness.greet())
    assert len(harness.deliveries) == 1


async def test_a_redirect_is_a_failure_and_is_not_followed(harness: WebhookHarness) -> None:
    onward = PlannedResponse(302, headers={"location": harness.receiver.url})
    async with sent_greeting(harness, onward, PlannedResponse()) as refused:
        assert (refused.status, refused.error) == (302, "The receiver returned 302")
    assert len(harness.receiver.received) == 1


async def test_a_slow_receiver_times_out(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_deliver, "DEADLINE_S", 0.3)
    async with sent_greeting(harness, PlannedResponse(waits=True)) as late:
        assert late.status is None
        assert (late.error or "").startswith("deadline_exceeded: ")


async def test_an_endless_response_is_not_read_to_its_end(harness: WebhookHarness) -> None:
    async with sent_greeting(harness, PlannedResponse(200, b"x" * 60_000, endless=True)) as huge:
        assert (huge.state, huge.status) == (DeliveryState.DELIVERED, 200)
        assert huge.response == "x" * 4096


@pytest.mark.parametrize(
    "answer",
    [
        PlannedResponse(200, b"x" * 2_000_000),
        PlannedResponse(202, b"ok", {"content-encoding": "br"}),
        PlannedResponse(201, b"no gzip", {"content-encoding": "gzip"}),
        PlannedResponse(200, b"5\r\nhe", {"transfer-encoding": "chunked"}),
    ],
)
async def test_a_message_is_delivered_although_the_response_is_unreadable(
    harness: WebhookHarness, answer: PlannedResponse
) -> None:
    async with sent_greeting(harness, answer) as delivered:
        assert (delivered.state, delivered.status) == (DeliveryState.DELIVERED, answer.status)
    assert len(harness.receiver.received) == 1


async def test_a_message_is_delivered_although_the_response_does_not_end(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobforge.connectors.egress.response_body._GLIMPSE_S", 0.2)
    announced = PlannedResponse(200, b"wait", {"content-type": "text/plain"}, pauses=True)
    async with sent_greeting(harness, announced) as delivered:
        assert (delivered.state, delivered.response) == (DeliveryState.DELIVERED, "wait")


async def test_responses_of_a_receiver_are_sanitized_for_display(harness: WebhookHarness) -> None:
    output = b"\x1b[2J\x00\xff" + "\u202e".encode() + b"\nAuthorization: Bearer abcdefghijklmnop\n"
    async with sent_greeting(harness, PlannedResponse(500, output + "ä".encode() * 5000)) as shown:
        response = shown.response or ""
    assert len(response.encode()) <= 4096
    assert not set("\x1b\x00\u202e") & set(response)
    assert "abcdefghijklmnop" not in response
    assert response.endswith("ä")


async def test_a_forbidden_address_is_never_connected_to(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(secret_key=harness.receiver.worker_config.secret_key, egress_http=True)
    monkeypatch.setattr(WebhookReceiver, "worker_config", config)
    changes = {"url": "http://127.0.0.1/hook", "secret": harness.secret}
    key = db.run(
        harness.conn, open_vault(harness.receiver.worker_config).build_tenant_key_call(TENANT_A)
    )
    harness.run(webhook_secrets.edit_webhook(harness.webhook_id, changes, key))
    async with sent_greeting(harness) as refused:
        assert (refused.error or "").startswith("address_not_allowed: ")
        assert "127.0.0.1" not in (refused.error or "")
    assert harness.receiver.received == []


async def test_a_delivered_message_is_not_sent_again_by_another_worker(
    harness: WebhookHarness,
) -> None:
    """The worker that sent the message was killed before it could settle its job."""
    async with harness.running_worker(queues={"default": 1}):
        await harness.wait_for_state(harness.greet())
    delivery = harness.delivery
    harness.run(calls.record_delivery(harness.webhook_id, delivery.id, {"status": 204}))
    assert delivery.job_id is not None
    async with harness.running_worker():
        await harness.wait_for_state(delivery.job_id)
    assert harness.receiver.received == []


async def test_pending_deliveries_of_a_deleted_or_disabled_endpoint_are_canceled(
    harness: WebhookHarness,
) -> None:
    async with harness.running_worker(queues={"default": 1}):
        for _ in range(2):
            await harness.wait_for_state(harness.greet())
    waiting = [delivery.job_id for delivery in harness.deliveries]
    harness.run(calls.edit_webhook(harness.webhook_id, {"enabled": False}))
    async with harness.running_worker(queues={connectors.QUEUE: 1}):
        for job_id in filter(None, waiting):
            canceled = await harness.wait_for_state(job_id, State.CANCELED)
            assert "disabled" in (canceled.job.cancel_reason or "")
    assert {delivery.state for delivery in harness.deliveries} == {DeliveryState.FAILED}
    assert harness.receiver.received == []


async def test_a_test_message_is_sent_once_and_leaves_no_dead_job(harness: WebhookHarness) -> None:
    harness.run(calls.edit_webhook(harness.webhook_id, {"enabled": False}))
    harness.receiver.responses[:] = [PlannedResponse(500)]
    async with harness.running_worker():
        harness.run(calls.test_webhook(harness.webhook_id))
        tested = await harness.wait_for_attempts()
    assert (tested.event, tested.state) == ("webhook.test", DeliveryState.FAILED)
    assert tested.job_id is not None
    assert harness.state(tested.job_id) is State.CANCELED
    assert harness.receiver.received[0].verify(harness.secret)["type"] == "webhook.test"
