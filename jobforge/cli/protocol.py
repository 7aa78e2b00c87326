"""How a connection speaks HTTP: as uvicorn does, but for four things.

Head and body of an answer go in one packet. uvicorn writes one after the other, and what is written
is sent at once: whoever asked would be woken up for the head alone, and have to wait again.

What is no sound request is refused by a problem, as everything else is, and not by a line of text.

A head has an end: uvicorn would keep what somebody sends of one for as long as they send it.

So has an answer that nobody reads: asyncio would keep what is left of it, and the connection, for
as long as the other side stays.
"""

import asyncio
import struct
from socket import SO_LINGER, SOL_SOCKET
from typing import Any
from uuid import uuid4

from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jobforge.api import events
from jobforge.api.problems import problem_of_http

_HEAD = b"HTTP/1.1 "
_LENGTH = b"\r\ncontent-length: "
_LONGEST_HEAD = 65_536
_NOT_AT_ALL = struct.pack("ii", 1, 0)


class Protocol(HttpToolsProtocol):
    """uvicorn's, on a transport of ours."""

    _head: int | None = None  # bytes of one that has begun, without its first packet

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            if self._head > _LONGEST_HEAD:
                self.send_400_response("")
                return
            self._head += len(data)  # it may end in these, and a body follow
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._joining = Joining(transport)
        super().connection_made(self._joining)  # type: ignore[arg-type]  # all that it uses is there

    def on_response_complete(self) -> None:
        self._joining.flush()  # what answers HEAD has no body
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours says more
        request_id = uuid4().hex
        answer = problem_of_http(HTTPException(400), request_id)
        answer.headers.update({"x-request-id": request_id, "connection": "close"})
        head = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%s\r\n%s" % (head, answer.body))
        self.transport.close()


class Joining:
    """A transport that holds back a head which tells the length of its body, until that comes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport can do
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(_HEAD) and _LENGTH in data:
            self._held = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        if self._held:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()
        self._expect_reader()

    def _expect_reader(self, before: int | None = None) -> None:
        left = self._transport.get_write_buffer_size()
        if left == before:
            # Else the kernel would keep what it has of it, and the connection.
            self.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _NOT_AT_ALL)
            self._transport.abort()
        elif left:
            asyncio.get_running_loop().call_later(events.STUCK_S, self._expect_reader, left)
