"""HTTP protocol of a connection: uvicorn's, with five changes.

Headers and body of a response are sent in one packet. uvicorn writes them separately and asyncio
sends each write at once, so the client would wake up for the headers and then wait again.

A malformed request gets a problem response instead of a line of text.

The size of request headers is limited. uvicorn would buffer them for as long as the client sends.

The connection is reset if the client stops reading a response. asyncio would keep the unsent data
and the connection for as long as the client stays connected.

The number of connections is limited, headers must arrive in time, and bodies at a minimum rate.
"""

import asyncio
import struct
from http import HTTPStatus
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, Literal
from uuid import uuid4

from starlette.exceptions import HTTPException
from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from jobforge.api.connection_limits import PEER, ConnectionLimiter
from jobforge.api.live import sse
from jobforge.api.problems import problem_from_http_exception

_HEAD = b"HTTP/1.1 "
_LENGTH = b"\r\ncontent-length: "
_LONGEST_HEAD = 65_536
_LINGER_ZERO = struct.pack("ii", 1, 0)
_LEAST_BYTES_PER_S = 500  # minimum rate of a body; mobile networks are faster


class LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, on a coalescing transport."""

    _head_bytes: int | None = None  # size of the unfinished headers without their first packet
    _is_in_body = False
    _body_bytes = 0  # since the body timer started
    _timer: asyncio.TimerHandle | None = None
    _timed_part: Literal["head", "body"] | None = None

    def __init__(self, *args: Any, connections: ConnectionLimiter, **options: Any) -> None:  # noqa: ANN401 - uvicorn's options
        super().__init__(*args, **options)
        self._limits = connections
        self._address: str | None = None  # address that the connection counts for
        self._is_counted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn expects the narrower class
        self._coalescing = CoalescingTransport(transport)
        super().connection_made(self._coalescing)  # type: ignore[arg-type]  # has all methods that uvicorn uses
        host = self.client[0] if self.client else None
        self._address = None if host is None or _is_trusted(self.config, host) else host
        self._is_counted = self._limits.open(self._address)
        if self._is_counted:
            self._start_timer("head")
        else:
            self._send_error(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self._start_timer(None)
        if self._is_counted:
            self._is_counted = False
            self._limits.close(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            if self._head_bytes > _LONGEST_HEAD:
                self.send_400_response("")
                return
            self._head_bytes += len(data)  # may include the start of a body
        self._body_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._start_timer(None)
        elif self._is_in_body:
            self._start_timer("body")
        elif self._head_bytes is not None or self._is_idle():
            self._start_timer("head")
        else:
            self._start_timer(None)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]  # PEER is not a key of the TypedDict
        scope[PEER] = self.client

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._is_in_body = True
        self._start_timer(None)  # so that the next part gets a new timer, also in a pipeline
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        self._start_timer(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._coalescing.flush()  # a response to HEAD has no body that would flush the headers
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the problem response replaces it
        self._send_error(400)

    def _start_timer(self, what: Literal["head", "body"] | None) -> None:
        """Start the timer for the part that the client must send next, unless it is running."""
        if what == self._timed_part:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timed_part = None, what
        if what == "head":
            self._timer = self.loop.call_later(self._limits.header_timeout_s, self._time_out)
        elif what == "body":
            self._body_bytes = 0
            self._timer = self.loop.call_later(self._limits.body_timeout_s, self._check_body)

    def _check_body(self) -> None:
        """Restart the timer if enough of the body arrived or the application paused reading."""
        seconds = self._limits.body_timeout_s
        is_read = not self.cycle.response_complete
        if is_read and (self.flow.read_paused or self._body_bytes >= _LEAST_BYTES_PER_S * seconds):
            self._timed_part = None
            self._start_timer("body")
        else:
            self._time_out()

    def _time_out(self) -> None:
        if self.transport.is_closing():
            return
        has_begun = self._head_bytes is not None or self._is_in_body
        if has_begun and not (self._timed_part == "body" and self.cycle.response_started):
            self._send_error(408)
        else:
            self.transport.close()

    def _is_idle(self) -> bool:
        """Whether no response is in progress."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def _send_error(self, status: int) -> None:
        request_id = uuid4().hex
        response = problem_from_http_exception(HTTPException(status), request_id)
        response.headers.update({"x-request-id": request_id, "connection": "close"})
        head = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
        status_line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(b"%s%s\r\n%s" % (status_line, head, response.body))
        self.transport.close()


def _is_trusted(config: Config, host: str) -> bool:
    """Whether uvicorn's proxy middleware trusts X-Forwarded-For from this host."""
    reader = config.loaded_app
    return isinstance(reader, ProxyHeadersMiddleware) and host in reader.trusted_hosts


class CoalescingTransport:
    """Transport that buffers response headers with a content length until the body follows."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held_head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all other methods of a transport
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held_head:
            data, self._held_head = self._held_head + data, b""
        elif data.startswith(_HEAD) and _LENGTH in data:
            self._held_head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        if self._held_head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()
        self._abort_if_unread()

    def _abort_if_unread(self, before: int | None = None) -> None:
        left = self._transport.get_write_buffer_size()
        if left == before:
            # Without this option the kernel would keep its unsent data, and the connection.
            self.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _LINGER_ZERO)
            self._transport.abort()
        elif left:
            asyncio.get_running_loop().call_later(sse.SEND_TIMEOUT_S, self._abort_if_unread, left)
