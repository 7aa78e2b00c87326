"""Head and body of an answer in one packet.

uvicorn writes one after the other, and what is written is sent at once: whoever asked would be
woken up for the head alone, and have to wait again.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1.1 "
_LENGTH = b"\r\ncontent-length: "


class Protocol(HttpToolsProtocol):
    """uvicorn's, on a transport of ours."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._joining = Joining(transport)
        super().connection_made(self._joining)  # type: ignore[arg-type]  # all that it uses is there

    def on_response_complete(self) -> None:
        self._joining.flush()  # what answers HEAD has no body
        super().on_response_complete()


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
