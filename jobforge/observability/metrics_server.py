"""HTTP server for metrics and health of a worker or a scheduler.

Serves GET /metrics and /health, one request per connection, in the process's event loop.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobforge.errors import ConfigError
from jobforge.observability.metrics import Meters

_MOST_BYTES = 8192  # maximum size of a request
_REQUEST_TIMEOUT_S = 5.0
_STATUSES = {200: "OK", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}


@asynccontextmanager
async def serve_metrics(
    meters: Meters, host: str, port: int, token: str | None = None
) -> AsyncIterator[int]:
    """Serve metrics within the block, and yield the port; port 0 selects a free port.

    With a token, /metrics requires it as a bearer token.
    """
    # Imported here, because prometheus-client is optional.
    try:
        from jobforge.observability import prometheus  # noqa: PLC0415 - prometheus-client is optional
    except ImportError as error:
        raise ConfigError(
            "Metrics require prometheus-client", hint="pip install 'jobforge[metrics]'"
        ) from error

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                method, path = _parse_request_line(request)
                status, body, kind = 404, b"", "text/plain"
                if method != "GET":
                    status = 405
                elif path == "/metrics" and token is not None and not _has_token(request, token):
                    status = 401
                elif path == "/metrics":
                    status, body = 200, prometheus.render_page(prometheus.collect_families(meters))
                    kind = prometheus.CONTENT_TYPE
                elif path == "/health":
                    status, body, kind = 200, b'{"status":"ok"}', "application/json"
                writer.write(_response(status, body, kind))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # not an HTTP client, or a slow one
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(handle, host, port, limit=_MOST_BYTES)
    except OSError as error:
        raise ConfigError(
            f"Cannot serve metrics on {host}:{port}: {error.strerror}", field="metrics_port"
        ) from error
    async with server:
        yield server.sockets[0].getsockname()[1]


def _parse_request_line(request: bytes) -> tuple[str, str]:
    """Return method and path; both are empty for an invalid request line."""
    parts = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return (parts[0], parts[1].partition("?")[0]) if len(parts) == 3 else ("", "")


def _has_token(request: bytes, token: str) -> bool:
    given = [
        value.strip()
        for name, _, value in (line.partition(b":") for line in request.split(b"\r\n")[1:])
        if name.lower() == b"authorization"
    ]
    return len(given) == 1 and secrets.compare_digest(given[0], f"Bearer {token}".encode())


def _response(status: int, body: bytes, kind: str) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_STATUSES[status]}\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
