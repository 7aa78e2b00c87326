"""A webhook receiver on loopback that records requests and sends the planned responses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import UUID

import standardwebhooks

from jobforge import db
from jobforge.config import Config
from jobforge.errors import Json
from jobforge.security.vault import open_vault
from jobforge.security.webhook_secrets import create_webhook


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One request; header names are in lower case."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> Json:
        """Verify the signature; raise what the standardwebhooks library raises."""
        return standardwebhooks.Webhook(secret).verify(self.body, self.headers)

    def is_signed_with(self, secret: str) -> bool:
        """Return whether this secret signed the message, whatever its age."""
        at = datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), UTC)
        signature = standardwebhooks.Webhook(secret).sign(self.id, at, self.body.decode())
        return signature in self.headers["webhook-signature"].split()


@dataclass(frozen=True, slots=True)
class PlannedResponse:
    """A response: with `waits`, it is never sent; with `endless`, its body repeats until the
    receiver stops; with `pauses`, the connection stays open after the body.
    """

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    waits: bool = False
    endless: bool = False
    pauses: bool = False


@dataclass(slots=True)
class WebhookReceiver:
    """`responses` are sent in order; the last one is repeated."""

    port: int
    received: list[ReceivedMessage] = field(default_factory=list)
    responses: list[PlannedResponse] = field(default_factory=lambda: [PlannedResponse()])
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def worker_config(self) -> Config:
        """Return the configuration of a worker that may reach this receiver."""
        return Config(
            secret_key="of the installation, 32 characters or more",
            egress_allow=(f"127.0.0.1:{self.port}",),
            egress_http=True,
        )

    def next_response(self) -> PlannedResponse:
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]


@contextmanager
def run_webhook_receiver() -> Iterator[WebhookReceiver]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = False
    receiver = _Handler.receivers[server] = WebhookReceiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()
        del _Handler.receivers[server]


def subscribe(
    conn: Any,
    receiver: WebhookReceiver,
    tenant_id: UUID,
    **settings: Json,
) -> tuple[UUID, str]:
    """Create an endpoint at the receiver; return its ID and its secret."""
    key = db.run(conn, open_vault(receiver.worker_config).build_tenant_key_call(tenant_id))
    given = {"url": receiver.url, "events": ["end"], **settings}
    created = db.run(conn, create_webhook(given, key).for_tenant(tenant_id))
    return created.id, created.secret


class _Handler(BaseHTTPRequestHandler):
    receivers: ClassVar[dict[Any, WebhookReceiver]] = {}

    def do_POST(self) -> None:
        receiver = self.receivers[self.server]
        length = int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the sender was killed
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.received.append(ReceivedMessage(headers, body))
        answer = receiver.next_response()
        if answer.waits:
            receiver.ending.wait()
            return
        self.send_response(answer.status)
        is_open = answer.endless or answer.pauses
        announced = {} if is_open else {"content-length": str(len(answer.body))}
        for name, value in {**answer.headers, **announced}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):  # the client may stop reading
            self.wfile.write(answer.body)
            while answer.endless and not receiver.ending.is_set():
                self.wfile.write(answer.body)
        if answer.pauses:
            receiver.ending.wait()

    def log_message(self, *_: object) -> None:
        """Log nothing."""
