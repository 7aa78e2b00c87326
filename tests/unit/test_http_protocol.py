"""Which parts of a response are sent together, and which at once."""

import asyncio
import socket

import pytest

from jobforge.api.http_protocol import CoalescingTransport
from jobforge.api.live import sse

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Sending(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.unread = [0]  # the values that successive calls return
        self.aborted = asyncio.Event()
        self.socket: socket.socket | None = None

    def get_write_buffer_size(self) -> int:
        return self.unread.pop(0)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self.socket if name == "socket" else default

    def abort(self) -> None:
        self.aborted.set()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.sent


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ([HEAD, b"{}"], [HEAD + b"{}"]),
        ([HEAD, b"{}", HEAD, b"[]"], [HEAD + b"{}", HEAD + b"[]"]),
        ([HEAD, b"{", b"}"], [HEAD + b"{", b"}"]),
        ([STREAM, b"1\r\na\r\n"], [STREAM, b"1\r\na\r\n"]),
        ([CONTINUE, HEAD, b"{}"], [CONTINUE, HEAD + b"{}"]),
    ],
)
def test_headers_are_sent_with_the_body_and_alone_if_no_body_follows_at_once(
    written: list[bytes], sent: list[bytes]
) -> None:
    transport = _Sending()
    joining = CoalescingTransport(transport)
    for data in written:
        joining.write(data)
    assert transport.sent == sent


def test_headers_alone_are_sent_when_the_response_is_complete_or_the_connection_closes() -> None:
    transport = _Sending()
    joining = CoalescingTransport(transport)
    joining.write(HEAD)
    joining.flush()
    joining.flush()
    assert transport.sent == [HEAD]
    joining.write(HEAD)
    assert not joining.is_closing()
    joining.close()
    assert transport.sent == [HEAD, HEAD, b"closed"]


@pytest.mark.anyio
async def test_the_rest_of_a_response_is_kept_while_the_client_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0)
    transport = _Sending()
    transport.unread = [100, 60, 20, 20]
    with socket.socket() as transport.socket:
        CoalescingTransport(transport).close()
        assert not transport.aborted.is_set()
        async with asyncio.timeout(30):
            await transport.aborted.wait()
    assert transport.unread == []
