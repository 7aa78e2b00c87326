"""A third-party shipping service that requires a token and is busy at times. See README.md.

Run it: python examples/connectors/service.py [PORT]
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "let-me-in-please"  # noqa: S105 - a token for this example only


class Service(BaseHTTPRequestHandler):
    """Respond with 503 to the first request for each order, and with 200 to the next one."""

    seen: set[str] = set()  # noqa: RUF012 - shared by all requests

    def do_POST(self) -> None:
        order = self.rfile.read(int(self.headers["Content-Length"])).decode()
        key = self.headers["Idempotency-Key"]
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401, {"error": "invalid token"})
        elif key not in self.seen:
            self.seen.add(key)
            self._answer(503, {"error": "busy"}, **{"Retry-After": "0"})
        else:
            self._answer(200, {"shipped": json.loads(order)["id"]})

    def _answer(self, status: int, document: object, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8800
    with ThreadingHTTPServer(("127.0.0.1", port), Service) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()
