"""A proxy before an API server that can drop responses, or respond that it is busy."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import httpx2

Fault = Literal["lose", "busy", "down", "throttled"]


class FaultyProxy:
    """`faults` apply to one request each, in this order; `always` applies until it is cleared. All
    other requests are forwarded. `requests` lists every request.
    """

    def __init__(self, url: str) -> None:
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.requests: list[str] = []
        self._upstream = httpx2.Client(base_url=url, trust_env=False, timeout=60)
        self._http_server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http_server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http_server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator["FaultyProxy"]:
        thread = threading.Thread(target=self._http_server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._http_server.shutdown()
            thread.join()
            self._http_server.server_close()
            self._upstream.close()

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        """Return the response, or None if it is dropped."""
        self.requests.append(f"{method} {path.partition('?')[0]}")
        fault = self.always or (self.faults.popleft() if self.faults else None)
        if fault == "down":
            return None
        if fault in _FAULT_STATUS:
            return httpx2.Response(_FAULT_STATUS[fault], headers={"retry-after": "0"})
        kept = {
            name: value for name, value in headers.items() if name.lower() in _FORWARDED_HEADERS
        }
        response = self._upstream.request(method, path, headers=kept, content=body)
        return None if fault == "lose" else response

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                response = proxy.forward(self.command, self.path, dict(self.headers), body)
                if response is None:
                    self.close_connection = True
                    return
                self.send_response(response.status_code)
                for name in ("content-type", "retry-after"):
                    if name in response.headers:
                        self.send_header(name, response.headers[name])
                if response.status_code != 204:
                    self.send_header("content-length", str(len(response.content)))
                self.end_headers()
                self.wfile.write(response.content)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_any  # noqa: N815 - names that http.server defines

            def log_message(self, *_: object) -> None: ...

        return Handler


_FAULT_STATUS = {"busy": 503, "throttled": 429}
_FORWARDED_HEADERS = {"authorization", "content-type", "idempotency-key", "x-jobforge-tenant"}
