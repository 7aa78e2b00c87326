"""Webhooks from the end of a job to the receiver, by a real worker, over loopback."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import pytest
import standardwebhooks
from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.webhook_receiver import Answer, Receiver, receiving, subscribe
from integration.worker_harness import Workshop, eventually

from jobforge import calls, connectors, db
from jobforge.calls import Call
from jobforge.config import Config
from jobforge.connectors import webhook_deliver
from jobforge.security.vault import open_vault
from jobforge.security.webhook_secrets import create_webhook_secret
from jobforge.types.jobs import State
from jobforge.types.webhooks import Delivery, DeliveryState, Webhook
from jobforge.worker import Worker

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Sending(Workshop):
    """Workers that deliver, and one endpoint of tenant A. `greet` succeeds at once."""

    def __init__(self, database: Database, conn: Connection, receiver: Receiver) -> None:
        super().__init__(database, conn)
        self.receiver = receiver
        self.webhook_id, self.secret = subscribe(conn, receiver, TENANT_A)

        @self.app.job(isolation="inline")
        async def greet(name: str) -> str:
            return f"hello {name}"

        self.register()

    def worker(self, pool: db.Database, **options: Any) -> Worker:
        tools = connectors.ConnectorServices(pool, self.receiver.config)
        make = partial(connectors.make_connectors, services=tools, client=self.app.client)
        queues = {"default": 10, connectors.QUEUE: 10}
        return super().worker(pool, **{"queues": queues, "make_connectors": make, **options})

    def run(self, call: Call[T]) -> T:
        return db.run(self.conn, call.for_tenant(TENANT_A))

    def webhook(self) -> Webhook:
        return self.run(calls.get_webhook(self.webhook_id))

    @property
    def deliveries(self) -> list[Delivery]:
        """Newest first."""
        return self.run(calls.list_deliveries(self.webhook_id))

    @property
    def delivery(self) -> Delivery:
        return self.deliveries[0]

    def greet(self) -> UUID:
        return self.enqueue("greet", {"name": "Ada"})

    async def tried(self, times: int = 1) -> Delivery:
        """The newest delivery once it was tried so often and its job has been settled."""
        await eventually(lambda: self.delivery.attempts == times)
        job_id = self.delivery.job_id
        assert job_id is not None
        await eventually(lambda: self.state(job_id) not in {State.RUNNING, State.QUEUED})
        return self.delivery


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened:
        yield opened


@pytest.fixture
def shop(database: Database, conn: Connection, receiver: Receiver) -> Sending:
    return Sending(database, conn, receiver)


@asynccontextmanager
async def one_greeting(shop: Sending, *answers: Answer) -> AsyncIterator[Delivery]:
    """A job that ended, its message tried once, and a worker that goes on."""
    if answers:
        shop.receiver.answers[:] = answers
    before = len(shop.deliveries)
    async with shop.working():
        shop.greet()
        await eventually(lambda: len(shop.deliveries) > before)
        yield await shop.tried()


async def test_the_end_of_a_job_arrives_signed(shop: Sending) -> None:
    shop.run(calls.edit_webhook(shop.webhook_id, {"events": ["start", "end"]}))
    async with shop.working():
        job_id = shop.enqueue("greet", {"name": "Ada"}, traceparent="00-ab-cd-01")
        await eventually(lambda: len(shop.receiver.received) == 2)
        await eventually(lambda: {d.state for d in shop.deliveries} == {DeliveryState.DELIVERED})
    by_type = {one.verified(shop.secret)["type"]: one for one in shop.receiver.received}
    assert set(by_type) == {"job.started", "job.succeeded"}
    message = by_type["job.succeeded"].verified(shop.secret)
    assert (message["data"]["job_id"], message["data"]["result"]) == (str(job_id), "hello Ada")
    headers = by_type["job.succeeded"].headers
    assert headers["content-type"] == "application/json"
    assert headers["traceparent"] == "00-ab-cd-01"
    assert {f"msg_{d.id.hex}" for d in shop.deliveries} == {
        one.id for one in shop.receiver.received
    }
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(shop.secret).verify(by_type["job.succeeded"].body + b" ", headers)


async def test_a_retry_has_the_same_id_and_comes_when_the_schedule_says(shop: Sending) -> None:
    async with one_greeting(shop, Answer(500, b"out of order"), Answer()) as failed:
        assert (failed.state, failed.status) == (DeliveryState.PENDING, 500)
        assert (failed.error, failed.response) == ("the receiver answered 500", "out of order")
        assert failed.attempted_at is not None
        assert failed.next_attempt_at is not None
        wait_s = (failed.next_attempt_at - failed.attempted_at).total_seconds()
        assert wait_s >= webhook_deliver.RETRY_DELAYS_S[0]
        assert shop.webhook().failing_since is not None
        shop.run(calls.redeliver(shop.webhook_id, failed.id))
        delivered = await shop.tried(2)
        assert (delivered.state, delivered.status) == (DeliveryState.DELIVERED, 204)
        assert shop.webhook().failing_since is None
        shop.run(calls.redeliver(shop.webhook_id, failed.id))
        await shop.tried(3)
    first, *others = shop.receiver.received
    assert [one.id for one in others] == [first.id] * 2
    assert [one.body for one in others] == [first.body] * 2
    for one in shop.receiver.received:
        one.verified(shop.secret)


async def test_both_secrets_sign_while_a_rotation_overlaps(shop: Sending) -> None:
    key = db.run(shop.conn, open_vault(shop.receiver.config).build_tenant_key_call(TENANT_A))
    new = create_webhook_secret(key, shop.webhook_id)
    shop.run(calls.rotate_webhook(shop.webhook_id, secret=new.sealed, overlap_s=3600))
    async with one_greeting(shop):
        pass
    [received] = shop.receiver.received
    assert received.verified(shop.secret) == received.verified(new.text)
    assert len(received.headers["webhook-signature"].split(" ")) == 2
    last = create_webhook_secret(key, shop.webhook_id)
    shop.run(calls.rotate_webhook(shop.webhook_id, secret=last.sealed, overlap_s=0))
    async with one_greeting(shop):
        pass
    received = shop.receiver.received[-1]
    received.verified(last.text)
    for old in (shop.secret, new.text):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            received.verified(old)


async def test_gone_disables_the_endpoint_and_the_job_is_dead(shop: Sending) -> None:
    async with one_greeting(shop, Answer(410)) as gone:
        assert (gone.state, gone.status) == (DeliveryState.FAILED, 410)
        assert gone.job_id is not None
        assert shop.state(gone.job_id) is State.DEAD
        assert shop.webhook().disabled_reason == "the receiver answered 410 Gone"
        await shop.ended(shop.greet())
    assert len(shop.deliveries) == 1


async def test_a_redirect_is_a_failure_and_is_not_followed(shop: Sending) -> None:
    onward = Answer(302, headers={"location": shop.receiver.url})
    async with one_greeting(shop, onward, Answer()) as refused:
        assert (refused.status, refused.error) == (302, "the receiver answered 302")
    assert len(shop.receiver.received) == 1


async def test_a_slow_receiver_is_given_up_on(
    shop: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_deliver, "DEADLINE_S", 0.3)
    async with one_greeting(shop, Answer(waits=True)) as late:
        assert late.status is None
        assert (late.error or "").startswith("deadline_exceeded: ")


async def test_an_endless_answer_is_not_read_to_its_end(shop: Sending) -> None:
    async with one_greeting(shop, Answer(200, b"x" * 60_000, endless=True)) as huge:
        assert (huge.state, huge.status) == (DeliveryState.DELIVERED, 200)
        assert huge.response == "x" * 4096


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"x" * 2_000_000),
        Answer(202, b"ok", {"content-encoding": "br"}),
        Answer(201, b"no gzip", {"content-encoding": "gzip"}),
        Answer(200, b"5\r\nhe", {"transfer-encoding": "chunked"}),
    ],
)
async def test_a_message_has_arrived_also_when_the_answer_cannot_be_read(
    shop: Sending, answer: Answer
) -> None:
    async with one_greeting(shop, answer) as delivered:
        assert (delivered.state, delivered.status) == (DeliveryState.DELIVERED, answer.status)
    assert len(shop.receiver.received) == 1


async def test_a_receiver_that_does_not_end_its_answer_has_the_message(
    shop: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobforge.connectors.egress.response_body._GLIMPSE_S", 0.2)
    announced = Answer(200, b"wait", {"content-type": "text/plain"}, pauses=True)
    async with one_greeting(shop, announced) as delivered:
        assert (delivered.state, delivered.response) == (DeliveryState.DELIVERED, "wait")


async def test_what_a_receiver_answers_is_made_fit_to_be_shown(shop: Sending) -> None:
    said = b"\x1b[2J\x00\xff" + "\u202e".encode() + b"\nAuthorization: Bearer abcdefghijklmnop\n"
    async with one_greeting(shop, Answer(500, said + "ä".encode() * 5000)) as shown:
        response = shown.response or ""
    assert len(response.encode()) <= 4096
    assert not set("\x1b\x00\u202e") & set(response)
    assert "abcdefghijklmnop" not in response
    assert response.endswith("ä")


async def test_an_address_that_is_not_allowed_is_never_connected_to(
    shop: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(secret_key=shop.receiver.config.secret_key, egress_http=True)
    monkeypatch.setattr(Receiver, "config", config)
    changes = {"url": "http://127.0.0.1/hook"}
    key = db.run(shop.conn, open_vault(shop.receiver.config).build_tenant_key_call(TENANT_A))
    secret = create_webhook_secret(key, shop.webhook_id)
    shop.run(calls.edit_webhook(shop.webhook_id, changes, secret=secret.sealed))
    async with one_greeting(shop) as refused:
        assert (refused.error or "").startswith("address_not_allowed: ")
        assert "127.0.0.1" not in (refused.error or "")
    assert shop.receiver.received == []


async def test_a_message_that_was_delivered_is_not_sent_again_by_another_worker(
    shop: Sending,
) -> None:
    """The worker that sent it was killed before it could settle its job."""
    async with shop.working(queues={"default": 1}):
        await shop.ended(shop.greet())
    delivery = shop.delivery
    shop.run(calls.record_delivery(shop.webhook_id, delivery.id, {"status": 204}))
    assert delivery.job_id is not None
    async with shop.working():
        await shop.ended(delivery.job_id)
    assert shop.receiver.received == []


async def test_what_waits_for_a_deleted_or_disabled_endpoint_is_canceled(shop: Sending) -> None:
    async with shop.working(queues={"default": 1}):
        for _ in range(2):
            await shop.ended(shop.greet())
    waiting = [delivery.job_id for delivery in shop.deliveries]
    shop.run(calls.edit_webhook(shop.webhook_id, {"enabled": False}))
    async with shop.working(queues={connectors.QUEUE: 1}):
        for job_id in filter(None, waiting):
            canceled = await shop.ended(job_id, State.CANCELED)
            assert "disabled" in (canceled.job.cancel_reason or "")
    assert {delivery.state for delivery in shop.deliveries} == {DeliveryState.FAILED}
    assert shop.receiver.received == []


async def test_a_test_message_is_tried_once_and_leaves_no_dead_job(shop: Sending) -> None:
    shop.run(calls.edit_webhook(shop.webhook_id, {"enabled": False}))
    shop.receiver.answers[:] = [Answer(500)]
    async with shop.working():
        shop.run(calls.test_webhook(shop.webhook_id))
        tested = await shop.tried()
    assert (tested.event, tested.state) == ("webhook.test", DeliveryState.FAILED)
    assert tested.job_id is not None
    assert shop.state(tested.job_id) is State.CANCELED
    assert shop.receiver.received[0].verified(shop.secret)["type"] == "webhook.test"
