"""A webhook receiver that verifies signatures, drops duplicates, and prints the other messages.

Run it: WEBHOOK_SECRET=whsec_… python examples/webhooks/receiver.py [PORT]
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

PORT = 8900
TOLERANCE_S = 300
LARGEST = 20_000  # bytes of a message's body

_seen: set[str] = set()  # message IDs; in production, keep them in a database for some days


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether a recent message was signed with the secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    sent_at = headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > TOLERANCE_S:
        return False
    signed = f"{headers.get('webhook-id')}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    signatures = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(each.encode(), expected.encode()) for each in signatures)


class Handler(BaseHTTPRequestHandler):
    """Accept messages. Respond quickly: move long work into a job."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(min(length, LARGEST))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not is_genuine(os.environ["WEBHOOK_SECRET"], headers, body):
            self._answer(401)
            return
        message_id = headers["webhook-id"]
        if message_id not in _seen:  # JobForge may deliver a message more than once
            _seen.add(message_id)
            message = json.loads(body)
            print(message["type"], json.dumps(message["data"]), flush=True)
        self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing, so that the output has only the messages."""


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    with HTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
